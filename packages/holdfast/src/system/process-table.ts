import { readdirSync, readFileSync } from "node:fs";

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** Clock ticks since boot. With the pid it names one process for ever: a later one with the same pid began later. */
  readonly started: string;
  /**
   * HOLDFAST_MARK, or the variable that was asked for, in the environment that it was started with. null: none, or another user's process.
   * A program that writes over its own environment (some databases, for their title) hides it.
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
    readonly variable?: MarkVariable;
  } = {},
): ProcessTable | null {
  const { variable = MARK_VARIABLE } = params;
  if (process.platform !== "linux" || readProcess(process.pid) === null) return null;
  const live: ProcessEntry[] = [];
  const doubts: Doubt[] = [];
  // Newest first: those that live shortest are read soonest after they were listed.
  const pids = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  for (const pid of pids.toSorted((a, b) => b - a)) {
    const before = params.known?.get(pid);
    const { entry, doubt } = before === undefined ? lookAt(pid, variable) : { entry: before, doubt: null };
    if (entry !== null && before === undefined) params.onSight?.(entry);
    if (entry !== null) live.push(entry);
    if (doubt !== null) doubts.push({ pid, why: doubt });
  }
  return { live, doubts };
}

/** null when it is gone; a zombie has ended too, only its parent has not noticed. */
export function readProcess(pid: number, variable: MarkVariable = MARK_VARIABLE): ProcessEntry | null {
  return lookAt(pid, variable).entry;
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
  variable: MarkVariable,
): { readonly entry: ProcessEntry | null; readonly doubt: string | null } {
  const stat = readQuietly(`/proc/${pid}/stat`);
  // The name stands in brackets and may hold spaces and brackets itself.
  const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const started = rest[17];
  if (started === undefined) return { entry: null, doubt: "vanished" };
  if (state === "Z" || state === "X") return { entry: null, doubt: `ended ${started}` };
  const environment = readQuietly(`/proc/${pid}/environ`);
  const entry = { pid, parent: Number(parent), started, mark: markIn(environment, `${variable}=`) };
  const isKernel = pid === KERNEL_THREADS || entry.parent === KERNEL_THREADS;
  return { entry, doubt: environment === "" && !isKernel ? `blank ${started}` : null };
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
