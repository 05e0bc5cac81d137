// Sends the files of runs to a git remote and fetches them from it, through a git directory of its own for each call. The user's refs, hooks
// and index are not touched, and what a remote sends is checked before the repository gets it.

import { hash } from "node:crypto";
import { copyFile, mkdir, readFile, readdir, rename, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { PushRefusal } from "@holdfast/core/branch";
import { copiedBlobs, ownSecrets } from "@holdfast/core/known-secrets";
import { findSecrets } from "@holdfast/core/mask";
import { RUN_ID } from "@holdfast/core/run";
import type { FilesFetch, FilesPush, FilesRemote, FoundInFiles } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { createGit, gitError } from "@holdfast/platform/git-command";
import { type ProcessResult, runProcess } from "@holdfast/platform/subprocess";
import { listRefs } from "./branch-refs.ts";
import {
  type ChainEntry,
  type ChainRecord,
  chainCommit,
  chainRoot,
  chainTree,
  entriesOf,
  formatRecord,
  missingEntries,
  parseChainCommit,
  parseEntryObject,
  parseRecord,
} from "./files-chain.ts";
import { findMissingObjects, linesOf, readReached, syncRepository, writeLooseObject } from "./objects.ts";
import { pinFetched } from "./pins.ts";
import { openScratch } from "./private-index.ts";
import { isRefused } from "./push.ts";
import { writeStagedTree } from "./replace-index.ts";
import {
  chooseRemote,
  classifyRemoteFailure,
  environment,
  hideCredentials,
  parseHeads,
  parsePushReport,
  remoteTimeout,
  withConfig,
} from "./remote.ts";
import type { Repository } from "./repository.ts";
import { type Settings, readSettings } from "./settings.ts";

/** USAGE if `remote` is neither a name nor a URL that git may use. */
export function createFilesRemote(repository: Repository, remote: string, store: string): FilesRemote {
  if (!ALLOWED.test(remote) || remote.includes("::") || !/^[\w-]{1,100}$/.test(store))
    throw usageError(
      `${JSON.stringify(hideCredentials(remote))} is not a git remote`,
      "Set files.remote to the name of a remote, or to its URL or path.",
    );
  const at = (run: string, signal?: AbortSignal): Promise<Place> =>
    findPlace(repository, { remote, store, run, signal });
  return {
    url: hideCredentials(remote),
    push: async ({ run, withSecrets = false, signal }) => {
      const place = await at(run, signal);
      const pushed = await push(place, withSecrets);
      const problem = problemOf(pushed);
      const before = await readRecord(place);
      if (problem !== before.problem) await writeRecord(place, { ...before, problem });
      return pushed;
    },
    fetch: async ({ run, signal }) => {
      const place = await at(run, signal);
      const there = await askTip(place);
      if (there.kind === "failed") return { kind: "refused", refusal: there.refusal };
      return there.tip === null ? { kind: "absent" } : await fetchChain(place, there.tip);
    },
    remove: async (run) => remove(await at(run)),
    async unpushed(run) {
      const place = { repository, run, remote, store };
      const { entries, problem } = await readRecord(place);
      const own = await listEntries(place);
      if (own.length === 0) return null;
      return { remote: hideCredentials(remote), snapshots: missingEntries(own, entries).length, problem };
    },
  };
}

/** Not an option of git, and no control characters. */
const ALLOWED = /^(?!-)[^\p{Cc}]{1,2000}$/u;

/** One run, and where its files are sent. */
interface Place {
  readonly repository: Repository;
  readonly run: string;
  /** Another store can have another run of the same name, and the same remote. */
  readonly store: string;
  /** As configured. */
  readonly remote: string;
  readonly fetchUrl: string;
  readonly pushUrl: string;
  /** The remote that the project's branches come from; null: there is none. */
  readonly baseUrl: string | null;
  /** Settings of the repository that git needs to reach a remote. */
  readonly settings: Settings;
  readonly signal: AbortSignal | undefined;
}

async function findPlace(
  repository: Repository,
  { remote, store, run, signal }: Pick<Place, "remote" | "store" | "run" | "signal">,
): Promise<Place> {
  if (!RUN_ID.test(run)) throw usageError(`${run} is not a run id`);
  const all = await readSettings(repository, repository.commonDir);
  const valuesOf = (key: string): readonly string[] =>
    all.flatMap(([each, value]) => (each === `remote.${remote}.${key}` ? value.split("\n") : []));
  const [url] = valuesOf("url");
  if (url === undefined && !/[/:\\]/.test(remote))
    throw usageError(
      `remote ${remote} does not exist`,
      `Add it with \`git remote add ${remote} <url>\`, or set files.remote to a URL.`,
    );
  const args = ["config", "--null", "--list", "--local", "--includes"];
  const local = await repository.git.result({ args });
  const settings = local.stdout
    .toString("utf8")
    .split("\0")
    .flatMap((record) => {
      const end = record.indexOf("\n");
      return end !== -1 && TRANSPORT.test(record) ? [[record.slice(0, end), record.slice(end + 1)] as const] : [];
    });
  const fetchUrl = absolute(repository, url ?? remote);
  const names = new Set(all.flatMap(([key]) => /^remote\.(.+)\.url$/s.exec(key)?.[1] ?? []));
  const base = chooseRemote({ names: [...names].toSorted(), configured: null, preferred: "", role: "base" });
  const [written] = all.flatMap(([key, value]) => (base !== null && key === `remote.${base}.url` ? [value] : []));
  const baseUrl = written === undefined ? null : absolute(repository, written.split("\n")[0] ?? "");
  const pushUrl = absolute(repository, valuesOf("pushurl")[0] ?? url ?? remote);
  return { repository, run, store, remote, fetchUrl, pushUrl, baseUrl, settings, signal };
}

/** Logins, proxies and rewritten URLs. Hooks and programs of a remote are not among them. */
const TRANSPORT = /^(?:credential|http|url)\.|^core\.(?:sshcommand|askpass|gitproxy)\n/;

/** A relative path is one from the main worktree. As in git, a colon before any slash means a host or a scheme. */
function absolute({ mainRoot, commonDir }: Repository, url: string): string {
  return url.startsWith("/") || /^[^/]*:/.test(url) ? url : resolve(mainRoot ?? commonDir, url);
}

function refOf({ run, store }: Pick<Place, "run" | "store">): string {
  return `refs/holdfast/${run}/files/${store}`;
}

async function listEntries({ repository, run }: Pick<Place, "repository" | "run">): Promise<readonly ChainEntry[]> {
  return entriesOf(run, await listRefs(repository, `refs/holdfast/${run}/`));
}

async function push(place: Place, withSecrets: boolean): Promise<FilesPush> {
  for (let attempt = 1; ; attempt++) {
    const there = await askTip(place);
    if (there.kind === "failed") return { kind: "refused", refusal: there.refusal };
    let record = await readRecord(place);
    const isHere = there.tip === null || (await findMissingObjects(place.repository, [there.tip])).length === 0;
    if (there.tip !== record.tip || !isHere) {
      // Another machine has pushed, or this one did and was killed. An older chain that was deleted there begins anew.
      if (there.tip === null) record = { ...record, tip: null, entries: [] };
      else {
        const fetched = await fetchChain(place, there.tip);
        if (fetched.kind === "refused") return fetched;
        record = await readRecord(place);
      }
    }
    const missing = missingEntries(await listEntries(place), record.entries);
    if (missing.length === 0) return { kind: "same" };
    const made = await extendChain(place, record.tip, missing);
    if (made.entries.length === 0) return { kind: "same" };
    if (!withSecrets) {
      const published = await listPublished(place, there.heads);
      if (!Array.isArray(published)) return { kind: "refused", refusal: published };
      const found = await inspect(place, made.tip, [...published, ...(record.tip === null ? [] : [record.tip])]);
      if (found.length > 0) return { kind: "secrets", found };
    }
    const refusal = await pushRef(place, { from: record.tip, to: made.tip });
    if (refusal === null) {
      const entries = [...record.entries, ...made.entries];
      await writeRecord(place, { ...record, tip: made.tip, entries, problem: null });
      return { kind: "pushed", snapshots: made.entries.length };
    }
    // Another machine pushed at the same time. Its snapshots come first then.
    if (refusal.cause !== "stale_lease" || attempt === MAX_ATTEMPTS) return { kind: "refused", refusal };
  }
}

const MAX_ATTEMPTS = 5;

function problemOf(pushed: FilesPush): string | null {
  if (pushed.kind === "refused") return `${pushed.refusal.cause}: ${pushed.refusal.message}`;
  if (pushed.kind !== "secrets") return null;
  const [first] = pushed.found;
  return first === undefined ? null : `possible secret: ${first.path}:${first.line} (${first.kind})`;
}

type Asked =
  | { readonly kind: "asked"; readonly tip: string | null; readonly heads: readonly string[] }
  | { readonly kind: "failed"; readonly refusal: PushRefusal };

/** The end of the run's chain, and the commits of the branches. */
async function askTip(place: Place, url: string = place.fetchUrl): Promise<Asked> {
  await using scratch = await openGitDir(place);
  const args = ["ls-remote", "--upload-pack=git-upload-pack", "--", url, refOf(place), "refs/heads/*"];
  const asked = await runRemoteGit(place, scratch.folder, args);
  if (asked.kind !== "exited" || asked.code !== 0) return { kind: "failed", refusal: refusalOf(asked) };
  const refs = parseHeads(asked.stdout.toString("utf8"));
  const heads = [...refs].flatMap(([ref, id]) => (ref.startsWith("refs/heads/") ? [id] : []));
  return { kind: "asked", tip: refs.get(refOf(place)) ?? null, heads };
}

/**
 * The commits here that are published already, on this remote or on the one that the project's branches come from. Each remote is asked:
 * an agent can write remote-tracking refs.
 */
async function listPublished(place: Place, heads: readonly string[]): Promise<string[] | PushRefusal> {
  const { repository, baseUrl } = place;
  const all = new Set(heads);
  if (baseUrl !== null && baseUrl !== place.fetchUrl) {
    const there = await askTip(place, baseUrl);
    if (there.kind === "failed") return there.refusal;
    for (const id of there.heads) all.add(id);
  }
  const gone = new Set(await findMissingObjects(repository, [...all]));
  return [...all].filter((id) => !gone.has(id));
}

function refusalOf(done: ProcessResult, report?: ReturnType<typeof parsePushReport>): PushRefusal {
  return classifyRemoteFailure({ report, failedHook: null, stderr: done.stderr, timedOut: done.kind === "timed_out" });
}

/** Writes the commits of these entries on top of the chain. An entry whose object is gone, because a gc dropped it, is left out. */
async function extendChain(
  { repository }: Place,
  from: string | null,
  missing: readonly ChainEntry[],
): Promise<{ readonly tip: string; readonly entries: readonly ChainEntry[] }> {
  const objects = await readObjects(
    repository.objects,
    missing.map(({ id }) => id),
  );
  const made: ChainEntry[] = [];
  const staged = new Map<string, string | null>();
  let tip = from ?? (await writeRoot(repository));
  for (const entry of missing) {
    const stored = objects.get(entry.id);
    const object = stored === undefined ? null : parseEntryObject(stored.type, stored.bytes);
    if (object === null) continue;
    const { head, index } = object.kind === "snapshot" ? object : { head: entry.id, index: null };
    const gone = await findMissingObjects(repository, [object.tree, head ?? object.tree, index ?? object.tree]);
    if (gone.includes(object.tree)) continue;
    const snapshot = object.kind === "snapshot" ? await writeLooseObject(repository, "blob", object.bytes) : null;
    const kept = index !== null && !gone.includes(index) ? index : null;
    if (kept !== null && !staged.has(kept)) staged.set(kept, await writeStagedTree(repository, kept));
    const parts = { files: object.tree, index: kept, snapshot, staged: staged.get(kept ?? "") ?? null };
    const tree = await writeLooseObject(repository, "tree", chainTree(parts));
    const parents = [tip, head !== null && !gone.includes(head) ? head : null].filter((id) => id !== null);
    tip = await writeLooseObject(repository, "commit", chainCommit({ tree, parents, entry }));
    made.push(entry);
  }
  return { tip, entries: made };
}

async function writeRoot(repository: Repository): Promise<string> {
  await writeLooseObject(repository, "tree", Buffer.alloc(0));
  return writeLooseObject(repository, "commit", chainRoot(repository.emptyTree));
}

/** The objects with these names, by name. */
async function readObjects(
  git: Repository["objects"],
  names: readonly string[],
): Promise<ReadonlyMap<string, { readonly type: string; readonly bytes: Buffer }>> {
  const args = ["cat-file", "--batch=%(objecttype) %(objectsize)"];
  const done = await git.result({ args, input: linesOf(names) });
  if (done.code !== 0) throw gitError(["cat-file"], done);
  const found = new Map<string, { readonly type: string; readonly bytes: Buffer }>();
  let rest = done.stdout;
  for (const name of names) {
    const start = rest.indexOf(0x0a) + 1;
    const [, type, size] = /^(blob|tree|commit|tag) (\d+)\n$/.exec(rest.toString("latin1", 0, start)) ?? [];
    const end = start + Number(size ?? 0);
    if (type !== undefined) found.set(name, { type, bytes: rest.subarray(start, end) });
    rest = rest.subarray(type === undefined ? start : end + 1);
  }
  return found;
}

/** What a push of commits would stop at, in all objects that neither the remote nor the one of the project's branches has. */
async function inspect(place: Place, tip: string, published: readonly string[]): Promise<readonly FoundInFiles[]> {
  const { repository } = place;
  const known = ownSecrets();
  const copies = copiedBlobs();
  const found: FoundInFiles[] = [];
  const revisions = [tip, ...published.map((id) => `^${id}`)];
  const { objects, missing } = await readReached(repository, { revisions, maxBytes: MAX_SEARCHED });
  for (const { id, type, bytes, where } of objects) {
    if (found.length >= MOST) break;
    const path = where.replace(/^files\//, "");
    const copied = copies.get(id);
    if (copied !== undefined) found.push({ path, line: 1, kind: `content of ${copied}` });
    const lines = type === "tree" ? [] : bytes.toString("utf8").split("\n");
    for (const [index, line] of lines.entries())
      for (const secret of findSecrets(line, known))
        if (isRefused(line, secret)) found.push({ path, line: index + 1, kind: secret.kind });
    // Another run of this process has its heartbeat to send.
    await nextTurn();
  }
  // Nothing leaves this machine unsearched, whatever kept git from showing all of it.
  if (missing !== null && found.length < MOST)
    found.push({
      path: "(files)",
      line: 0,
      kind:
        missing === "too many bytes" ? "not searched: more than 64 MB are new" : "not searched: git did not show all",
    });
  return found.slice(0, MOST);
}

const MAX_SEARCHED = 64 * 1024 ** 2;
const MOST = 100;

/** Null: done. The ref is never moved away from what this machine saw there. */
async function pushRef(
  place: Place,
  { from, to }: { readonly from: string | null; readonly to: string | null },
): Promise<PushRefusal | null> {
  await using scratch = await openGitDir(place);
  const ref = refOf(place);
  const lease = `--force-with-lease=${ref}:${from ?? ""}`;
  const options = ["--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"];
  const args = [
    "push",
    ...options,
    "--receive-pack=git-receive-pack",
    lease,
    "--",
    place.pushUrl,
    `${to ?? ""}:${ref}`,
  ];
  const done = await runRemoteGit(place, scratch.folder, args);
  const report = parsePushReport(done.stdout.toString("utf8"), ref);
  if (done.kind === "exited" && done.code === 0 && report !== undefined && report.flag !== "!") return null;
  return refusalOf(done, report);
}

async function remove(place: Place): Promise<PushRefusal | null> {
  const there = await askTip(place);
  if (there.kind === "failed") return there.refusal;
  const refusal = there.tip === null ? null : await pushRef(place, { from: there.tip, to: null });
  if (refusal === null) await writeRecord(place, { remote: place.remote, tip: null, entries: [], problem: null });
  return refusal;
}

/**
 * Fetches the chain into a git directory of its own and checks it. Then the repository gets the pack, the tags and the refs, in this order:
 * after a kill in between, the next call does the rest.
 */
async function fetchChain(place: Place, tip: string): Promise<FilesFetch> {
  const { repository, run } = place;
  const before = await readRecord(place);
  const known =
    before.tip !== null && (await findMissingObjects(repository, [before.tip])).length === 0 ? before.tip : null;
  if (known === tip) return { kind: "same" };
  await using scratch = await openGitDir(place, known);
  const ref = "refs/heads/fetched";
  const options = ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
  const args = ["fetch", ...options, "--upload-pack=git-upload-pack", "--", place.fetchUrl, `+${refOf(place)}:${ref}`];
  const done = await runRemoteGit(place, scratch.folder, args);
  if (done.kind !== "exited" || done.code !== 0) return { kind: "refused", refusal: refusalOf(done) };
  const fetched = (await readFile(join(scratch.folder, ref), "latin1")).trim();
  // A remote that was set back to an older state has lost what came after it.
  const kept = known !== null && (await isAncestor(scratch.folder, known, fetched)) ? known : null;
  const chain = await readChain(place, { folder: scratch.folder, tip: fetched, known: kept });
  const packs = await readdir(join(scratch.folder, "objects", "pack"));
  // The index of a pack comes last: git ignores a pack without one.
  for (const name of packs.toSorted((a, b) => Number(a.endsWith(".idx")) - Number(b.endsWith(".idx"))))
    await rename(join(scratch.folder, "objects", "pack", name), join(repository.objectDirectory, "pack", name));
  for (const { bytes } of chain) if (bytes !== null) await writeLooseObject(repository, "tag", bytes);
  await syncRepository(repository);
  for (const { entry } of chain) await pinFetched(repository, { run, ...entry });
  await syncRepository(repository);
  const entries = [...(kept === null ? [] : before.entries), ...chain.map(({ entry }) => entry)];
  await writeRecord(place, { ...before, tip: fetched, entries });
  return { kind: "fetched", snapshots: chain.length };
}

async function isAncestor(folder: string, older: string, newer: string): Promise<boolean> {
  const args = ["merge-base", "--is-ancestor", older, newer];
  const done = await createGit({ cwd: folder, gitDir: folder }).result({ args });
  if (done.code === 0 || done.code === 1) return done.code === 0;
  throw gitError(args, done);
}

/** The new entries, oldest first. FORMAT_DAMAGED if one is not what its commit says. */
async function readChain(
  { repository, fetchUrl }: Place,
  params: { readonly folder: string; readonly tip: string; readonly known: string | null },
): Promise<readonly { readonly entry: ChainEntry; readonly bytes: Buffer | null }[]> {
  const git = createGit({ cwd: params.folder, gitDir: params.folder });
  const excluded = params.known === null ? [] : [`^${params.known}`];
  const args = ["rev-list", "--first-parent", "--reverse", `--max-count=${MAX_CHAIN}`, params.tip, ...excluded];
  const root = await writeRoot(repository);
  const ids = (await git.line({ args })).split("\n").filter((id) => id !== "" && id !== root);
  if (ids.length >= MAX_CHAIN) throw damaged(fetchUrl, "there are too many of them");
  const objects = await readObjects(
    git,
    ids.flatMap((id) => [id, `${id}:snapshot`]),
  );
  const trees = await git.output({
    args: ["cat-file", "--batch-check=%(objectname)"],
    input: linesOf(ids.map((id) => `${id}:files`)),
  });
  const files = trees.toString("latin1").split("\n");
  const found: { entry: ChainEntry; bytes: Buffer | null }[] = [];
  for (const [index, id] of ids.entries()) {
    const commit = parseChainCommit(objects.get(id)?.bytes ?? Buffer.alloc(0));
    if (commit === null) throw damaged(fetchUrl, `commit ${id} is not one of a run's files`);
    const { entry } = commit;
    const blob = objects.get(`${id}:snapshot`);
    if (blob === undefined) {
      if (!commit.parents.includes(entry.id))
        throw damaged(fetchUrl, `${entry.name} is not among the parents of ${id}`);
      found.push({ entry, bytes: null });
      continue;
    }
    const object = parseEntryObject("tag", blob.bytes);
    if (object?.tree !== files[index])
      throw damaged(fetchUrl, `the snapshot ${entry.name} has other files than its tag`);
    const tag = Buffer.concat([Buffer.from(`tag ${blob.bytes.length}\0`), blob.bytes]);
    if (hash(repository.objectFormat, tag) !== entry.id)
      throw damaged(fetchUrl, `the snapshot ${entry.name} has another id`);
    found.push({ entry, bytes: blob.bytes });
  }
  return found;
}

const MAX_CHAIN = 1_000_000;

function damaged(url: string, why: string): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_DAMAGED",
    message: `The files on ${hideCredentials(url)} are damaged: ${why}`,
    hint: "Nothing was written here. Push them again from the machine that has them: `holdfast store push`.",
  });
}

/** A git directory without hooks and settings, over the objects of the repository. What it fetches stays in it. */
async function openGitDir(
  { repository }: Place,
  known: string | null = null,
): Promise<Awaited<ReturnType<typeof openScratch>>> {
  const scratch = await openScratch(repository.home);
  const { folder } = scratch;
  for (const name of ["objects/info", "objects/pack", "refs/heads"])
    await mkdir(join(folder, name), { recursive: true });
  const isSha256 = repository.objectFormat === "sha256";
  const extension = isSha256 ? "[extensions]\n\tobjectFormat = sha256\n" : "";
  const config = `[core]\n\trepositoryFormatVersion = ${isSha256 ? 1 : 0}\n\tbare = true\n${extension}`;
  await writeFile(join(folder, "config"), config);
  await writeFile(join(folder, "HEAD"), "ref: refs/heads/none\n");
  await writeFile(join(folder, "objects/info/alternates"), `${repository.objectDirectory}\n`);
  await copyFile(join(repository.commonDir, "shallow"), join(folder, "shallow")).catch(() => undefined);
  if (known !== null) await writeFile(join(folder, "refs/heads/known"), `${known}\n`);
  return scratch;
}

/** As the user's git, in the scratch git directory: logins, proxies and ssh work, and no hook or other transport. It never prompts. */
async function runRemoteGit(place: Place, gitDir: string, args: readonly string[]): Promise<ProcessResult> {
  const settings = SETTINGS.flatMap((setting) => ["-c", setting]);
  const result = await runProcess({
    command: "git",
    args: ["--no-pager", ...settings, ...args],
    cwd: gitDir,
    env: { ...withConfig(environment(process.env), place.settings), GIT_DIR: gitDir, GIT_ALLOW_PROTOCOL: PROTOCOLS },
    timeoutMs: remoteTimeout(args),
    signal: place.signal,
  });
  if (result.kind === "not_started") throw gitError(args, result);
  return { ...result, stderr: hideCredentials(result.stderr) };
}

const PROTOCOLS = "file:git:http:https:ssh";
const SETTINGS: readonly string[] = [
  "core.hooksPath=/dev/null",
  "gc.auto=0",
  "maintenance.auto=false",
  "push.gpgSign=false",
  "fetch.fsckObjects=true",
  // Old commits of a user's project may have these.
  ...["zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate"].map((kind) => `fetch.fsck.${kind}=ignore`),
  // A pack is moved as a whole.
  "fetch.unpackLimit=1",
];

type RecordPlace = Pick<Place, "repository" | "run" | "store">;

function recordPath({ repository, run, store }: RecordPlace): string {
  return join(repository.home, `files-${run}-${store}`);
}

async function readRecord(place: RecordPlace & Pick<Place, "remote">): Promise<ChainRecord> {
  return parseRecord(await readFile(recordPath(place), "utf8").catch(() => ""), place.remote);
}

async function writeRecord(place: RecordPlace, record: ChainRecord): Promise<void> {
  await using scratch = await openScratch(place.repository.home);
  const draft = join(scratch.folder, "record");
  await writeFile(draft, formatRecord(record), { mode: 0o600 });
  await rename(draft, recordPath(place));
}
