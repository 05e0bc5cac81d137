// npm runs this before it packs or publishes packages/holdfast. It builds, and copies the documents of the repository into the package.
//   node scripts/prepack.mjs            build and copy
//   node scripts/prepack.mjs --remove   remove the copies again (npm runs it after packing)
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "packages/holdfast");
const DOCUMENTS = ["README.md", "LICENSE", "CHANGELOG.md", "docs"];

for (const name of DOCUMENTS) rmSync(join(target, name), { recursive: true, force: true });
if (!process.argv.includes("--remove")) {
  const build = spawnSync(process.execPath, [join(root, "scripts/build.mjs"), "--types"], {
    cwd: root,
    stdio: "inherit",
  });
  if (build.status !== 0) process.exit(build.status ?? 1);
  for (const name of DOCUMENTS) cpSync(join(root, name), join(target, name), { recursive: true });
  const pages = readdirSync(join(target, "docs")).map((name) => join("docs", name));
  for (const page of ["README.md", "CHANGELOG.md", ...pages].filter((name) => name.endsWith(".md"))) resolveLinks(page);
}

/** A link to a file that is not in the package, such as bench/README.md, becomes text. */
function resolveLinks(page) {
  const path = join(target, page);
  const text = readFileSync(path, "utf8").replaceAll(/\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)/g, (link, name, to) => {
    if (/^[a-z]+:/.test(to) || existsSync(join(target, dirname(page), to))) return link;
    const place = `\`${normalize(join(dirname(page), to))}\` in the repository`;
    return name === to ? place : `${name} (${place})`;
  });
  writeFileSync(path, text);
}
