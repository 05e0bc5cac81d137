import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What may happen to a file at rest. `file` is below the store's directory. */
export type Damage = { readonly file: string } & (
  | { readonly how: "delete" | "empty" | "fifo" | "directory" | "dangling-link" | "link-to-endless" | "link-elsewhere" }
  | { readonly how: "cut"; readonly bytes: number }
  | { readonly how: "flip"; readonly at: number; readonly bit: number }
  | { readonly how: "zero-page"; readonly at: number }
  /** By another file of the same kind, whole in itself. */
  | { readonly how: "replace"; readonly by: string }
);

export function applyDamage(directory: string, damage: Damage): void {
  const path = join(directory, damage.file);
  switch (damage.how) {
    case "delete":
      return rmSync(path, { recursive: true });
    case "empty":
      return truncateSync(path, 0);
    case "cut":
      return truncateSync(path, damage.bytes);
    case "flip":
    case "zero-page": {
      const bytes = readFileSync(path);
      if (damage.how === "flip") bytes[damage.at] = (bytes[damage.at] ?? 0) ^ (1 << damage.bit);
      else bytes.fill(0, damage.at, Math.min(bytes.length, damage.at + 4096));
      return writeFileSync(path, bytes);
    }
    case "replace":
      return cpSync(damage.by, path);
    case "fifo":
      rmSync(path, { recursive: true });
      return void execFileSync("/usr/bin/mkfifo", [path]);
    case "directory":
      rmSync(path, { recursive: true });
      return void mkdirSync(path);
    case "dangling-link":
    case "link-to-endless":
    case "link-elsewhere": {
      const moved = `${path}.moved`;
      cpSync(path, moved, { recursive: true });
      rmSync(path, { recursive: true });
      const target = { "dangling-link": "/nowhere/at/all", "link-to-endless": "/dev/zero", "link-elsewhere": moved }[
        damage.how
      ];
      return symlinkSync(target, path);
    }
  }
}
