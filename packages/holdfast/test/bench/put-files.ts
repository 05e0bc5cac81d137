import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

export async function putFiles(root: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}
