import { open, type FileHandle } from "node:fs/promises";
import { gitFailure, type Git } from "../git/git-command.ts";
import { HoldfastError } from "../../core/error.ts";

export interface Permissions {
  readonly mode: number;
  /** Not exact: a new file, so the umask has its say. */
  readonly exact: boolean;
}

interface StageParams {
  readonly git: Git;
  readonly blobs: readonly { readonly id: string; readonly file: string; readonly permissions: Permissions }[];
  /** Sync each file as it is written. Without, the caller syncs the file system before it relies on them. */
  readonly sync: boolean;
}

/** Writes blobs to files as the bytes they are. One git process for all of them, whatever their size; none is held in memory. */
export async function stageBlobs({ git, blobs, sync }: StageParams): Promise<void> {
  if (blobs.length === 0) return;
  const args = ["cat-file", "--batch"];
  const reading = git.start({ args });
  reading.stdin.end(blobs.map(({ id }) => `${id}\n`).join(""));
  const bytes = new ByteReader(reading.stdout);
  try {
    for (const { id, file, permissions } of blobs) {
      const [name, type, size] = (await bytes.line()).split(" ");
      if (name !== id || type !== "blob") throw missingBlob(id);
      const handle = await open(file, "wx", permissions.mode);
      try {
        if (permissions.exact) await handle.chmod(permissions.mode);
        await bytes.copy(Number(size), handle);
        if (sync) await handle.sync();
      } catch (error) {
        await handle.close().catch(() => undefined);
        throw error;
      }
      await handle.close();
      await bytes.skip(1);
    }
  } catch (error) {
    reading.kill();
    reading.stdout.destroy();
    await reading.exit;
    throw error;
  }
  const exit = await reading.exit;
  if (exit.kind !== "exited" || exit.code !== 0) throw gitFailure(args, exit);
}

function missingBlob(id: string): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `blob ${id} of the snapshot is not whole in this repository`,
    hint: "Run `git fsck`, or restore another checkpoint. Nothing was changed.",
  });
}

/** Takes lines and runs of bytes off a stream in turn. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  async line(): Promise<string> {
    let end = this.#rest.indexOf(0x0a);
    while (end < 0) {
      const more = await this.#next();
      if (more === undefined) return this.#rest.toString("latin1");
      this.#rest = Buffer.concat([this.#rest, more]);
      end = this.#rest.indexOf(0x0a);
    }
    const line = this.#rest.toString("latin1", 0, end);
    this.#rest = this.#rest.subarray(end + 1);
    return line;
  }

  async copy(size: number, to: FileHandle): Promise<void> {
    await this.#take(size, (part) => to.writeFile(part));
  }

  async skip(size: number): Promise<void> {
    await this.#take(size, async () => undefined);
  }

  async #take(size: number, use: (part: Buffer) => Promise<void>): Promise<void> {
    for (let left = size; left > 0;) {
      if (this.#rest.length === 0) {
        const more = await this.#next();
        if (more === undefined)
          throw new HoldfastError({ code: "GIT_FAILED", message: "git cat-file ended in the middle of a blob" });
        this.#rest = more;
      }
      const part = this.#rest.subarray(0, left);
      // writeFile goes on until all of it is written, or throws: a plain write may stop short on a full disk.
      await use(part);
      left -= part.length;
      this.#rest = this.#rest.subarray(part.length);
    }
  }

  async #next(): Promise<Buffer | undefined> {
    const next = await this.#chunks.next();
    return next.done === true ? undefined : next.value;
  }
}
