import { readdirSync, readFileSync, writeFileSync } from "node:fs";

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** Clock ticks since boot. With the pid it names one process for ever: a later one with the same pid began later. */
  readonly started: string;
  /**
   * HOLDFAST_MARK, or the variable that was asked for, in the environment that it was started with. null: none, or another user's process.
   * A program that writes over its own environment (some databases, for their title) hides it. A process without the variable has the mark of
   * the trait that it inherited, where one was asked for.
   */
  readonly mark: string | null;
}

export interface ProcessTable {
  readonly live: readonly ProcessEntry[];
  /**
   * Who may have started somebody after the list was made and before it was read: what vanished meanwhile, what is a zombie by now,
   * and what shows no environment at all because it is just becoming another program. A table without doubts is complete.
   */
  readonly doubts: readonly Doubt[];
}

export interface Doubt {
  readonly pid: number;
  readonly why: string;
}

/**
 * null where the system has no /proc that tells. Who is `known` and still listed is taken as it was, which makes a second look short:
 * on a busy host a long one always finds that something vanished meanwhile. `onSight` is called for each other while it is still warm.
 */
export function readProcessTable(
  params: {
    readonly known?: ReadonlyMap<number, ProcessEntry>;
    readonly onSight?: ((entry: ProcessEntry) => void) | undefined;
  } & MarkSource = {},
): ProcessTable | null {
  if (process.platform !== "linux" || readProcess(process.pid) === null) return null;
  const live: ProcessEntry[] = [];
  const doubts: Doubt[] = [];
  // Newest first: those that live shortest are read soonest after they were listed.
  const pids = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  for (const pid of pids.toSorted((a, b) => b - a)) {
    const before = params.known?.get(pid);
    const { entry, doubt } = before === undefined ? lookAt(pid, params) : { entry: before, doubt: null };
    if (entry !== null && before === undefined) params.onSight?.(entry);
    if (entry !== null) live.push(entry);
    if (doubt !== null) doubts.push({ pid, why: doubt });
  }
  return { live, doubts };
}

/** null when it is gone; a zombie has ended too, only its parent has not noticed. */
export function readProcess(pid: number, source: MarkSource = {}): ProcessEntry | null {
  return lookAt(pid, source).entry;
}

/** How a process is recognised: by a variable of its environment (HOLDFAST_MARK by default) and, where it has none, by an inherited trait. */
export interface MarkSource {
  readonly variable?: MarkVariable | undefined;
  readonly trait?: ProcessTrait | undefined;
}

/**
 * A value of /proc/PID/coredump_filter that only the children of one Holdfast process have. A process inherits it through fork and exec; clearing the
 * environment, opening a session and losing the parent leave it as it is.
 */
export interface ProcessTrait {
  readonly filter: string;
  /** The mark of processes that have it. */
  readonly mark: string;
}

/** Names the run and the step that a process works for. */
export const MARK_VARIABLE = "HOLDFAST_MARK";
/** Names the Holdfast process that started it: a later one that resumes the same step uses the same mark. */
export const SUPERVISOR_VARIABLE = "HOLDFAST_SUPERVISOR";
export type MarkVariable = typeof MARK_VARIABLE | typeof SUPERVISOR_VARIABLE;
/** Parent of the kernel's own threads, which have no environment and never will. */
const KERNEL_THREADS = 2;

function lookAt(
  pid: number,
  { variable = MARK_VARIABLE, trait }: MarkSource,
): { readonly entry: ProcessEntry | null; readonly doubt: string | null } {
  const stat = readQuietly(`/proc/${pid}/stat`);
  // The name stands in brackets and may hold spaces and brackets itself.
  const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const started = rest[17];
  if (started === undefined) return { entry: null, doubt: "vanished" };
  if (state === "Z" || state === "X") return { entry: null, doubt: `ended ${started}` };
  const environment = readQuietly(`/proc/${pid}/environ`);
  const inherited = trait !== undefined && filterOf(pid) === trait.filter ? trait.mark : null;
  const entry = { pid, parent: Number(parent), started, mark: markIn(environment, `${variable}=`) ?? inherited };
  const isKernel = pid === KERNEL_THREADS || entry.parent === KERNEL_THREADS;
  return { entry, doubt: environment === "" && !isKernel ? `blank ${started}` : null };
}

/**
 * A value that no process has now, for the children of this process. It differs from our own in memory mappings that hardly any program has: shared
 * files, shared huge pages and DAX, so a core dump keeps what debuggers read. undefined: the system has none, or each is in use.
 */
export function chooseTrait(mark: string): ProcessTrait | undefined {
  const own = Number.parseInt(filterOf("self"), 16);
  if (process.platform !== "linux" || Number.isNaN(own)) return undefined;
  const used = new Set(readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [filterOf(name)] : [])));
  const free = TRAIT_BITS.map((bits) => (own ^ bits).toString(16).padStart(8, "0")).filter(
    (filter) => !used.has(filter),
  );
  const filter = free[Math.floor(Math.random() * free.length)];
  return filter === undefined ? undefined : { filter, mark };
}

/** Calls `spawn`, which must start its child before it returns: the child has the trait, and this process has it only meanwhile. */
export function spawnWithTrait<T>(trait: ProcessTrait | undefined, spawn: () => T): T {
  const own = filterOf("self");
  if (trait === undefined || own === "") return spawn();
  try {
    writeFilter(trait.filter);
    return spawn();
  } finally {
    writeFilter(own);
  }
}

/** Every combination of the bits 3, 6, 7 and 8 but none. */
const TRAIT_BITS = Array.from({ length: 15 }, (_, at) => (((at + 1) & 1) << 3) | (((at + 1) >> 1) << 6));

function filterOf(pid: number | string): string {
  return readQuietly(`/proc/${pid}/coredump_filter`).trim();
}

function writeFilter(filter: string): void {
  try {
    writeFileSync("/proc/self/coredump_filter", `0x${filter}`);
  } catch {
    // The environment alone marks the child.
  }
}

function markIn(environment: string, prefix: string): string | null {
  const variable = environment.split("\0").find((text) => text.startsWith(prefix));
  // What the kernel hands out are bytes; a mark may hold any text.
  return variable === undefined ? null : Buffer.from(variable.slice(prefix.length), "latin1").toString("utf8");
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
