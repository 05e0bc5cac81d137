import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";

const root = join(import.meta.dirname, "../../..");

/**
 * Puts the built package into `folder`/node_modules/holdfast, as an installation does, and returns its path. The copy is the test's own:
 * no test builds into packages/holdfast/dist, because others read from it at the same time.
 */
export function installPackage(folder: string): string {
  const source = join(root, "packages/holdfast");
  const installed = join(folder, "node_modules/holdfast");
  mkdirSync(installed, { recursive: true });
  for (const name of ["bin", "schemas", "package.json"])
    cpSync(join(source, name), join(installed, name), { recursive: true });
  // `npm test` has built the sources just before. A test file that is run alone builds them itself.
  const built = process.env["HOLDFAST_TEST_DIST"];
  const dist = join(installed, "dist");
  if (built !== undefined) cpSync(built, dist, { recursive: true });
  else execFileSync(process.execPath, [join(root, "scripts/build.mjs"), "--out", dist], { cwd: root, stdio: "pipe" });
  for (const path of dependencyFolders()) symlinkSync(path, join(folder, "node_modules", basename(path)));
  return installed;
}

/** The installed dependencies of the package. */
export function dependencyFolders(): readonly string[] {
  const { dependencies }: { readonly dependencies: object } = JSON.parse(
    readFileSync(join(root, "packages/holdfast/package.json"), "utf8"),
  );
  return Object.keys(dependencies).map((name) => join(root, "node_modules", name));
}
