import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Plugin } from "vite";
import { type TestProjectConfiguration, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { SHARED, SHARED_BY, stopSharedPostgres } from "./packages/test-support/src/postgres-server.ts";
import { keepCompiledCode, useMemory } from "./packages/holdfast/test/temporary-folder.ts";

/**
 * A test file belongs to `npm test` unless its name ends in .slow.test.ts. Slow are: those that need a real agent, a forge's program or
 * tools that npm test does not install, those that sweep over many points of failure, and those that take more than about six seconds of
 * processor time. `npm test` sets HOLDFAST_TESTS=fast, `npm run test:slow` sets HOLDFAST_TESTS=slow, `npm run test:quick` sets HOLDFAST_TESTS=quick;
 * vitest alone runs what you name.
 */
const which = process.env["HOLDFAST_TESTS"];
const ends = which === "slow" ? ".slow.test.ts" : ".test.ts";
const exclude = which === "fast" ? ["**/*.slow.test.ts"] : [];

/**
 * Packages whose fast tests leave the process as it was: no environment, working directory, clock or module is changed. They share their processes,
 * which saves each file about 0.4 seconds of processor time for a process and its imports.
 */
const LIGHT = [
  "packages/{agents,formats,workflows}/src/**/!(*.slow).test.ts",
  "packages/holdfast/src/{cli/commands,cli/output,config}/**/!(*.slow).test.ts",
];

/** Quick are the fast tests of pure code: they import neither a fixture nor a module of Node that reaches the system. */
function quickTests(): readonly string[] {
  const found = globSync("packages/*/src/**/*.test.ts", { cwd: import.meta.dirname });
  return found.filter((path) => !path.endsWith(".slow.test.ts") && !reachesOut(readFileSync(path, "utf8")));
}

function reachesOut(source: string): boolean {
  const imported = [...source.matchAll(/ from "([^"]+)"/g)].map(([, name = ""]) => name);
  return imported.some((name) =>
    /^node:(?!crypto|path|url|util|zlib)|test-support\/(?!formats)|-scene|server/.test(name),
  );
}

/**
 * Programs that a module starts beside itself are taken from the build, if there is one: at every start from sources, Node strips the types of
 * each file again, which takes three times as long.
 */
const programs: Plugin = {
  name: "programs-of-the-build",
  transform(code, id) {
    const dist = process.env["HOLDFAST_TEST_DIST"];
    if (dist === undefined || !/\/src\/(?:scripted|syntax-gate)\.ts$/.test(id)) return null;
    return code.replace(
      /join\(import\.meta\.dirname, `([\w-]+)\$\{extname\(import\.meta\.filename\)\}`\)/,
      (own, name: string) => {
        const built = resolve(dist, "cli", `${name}.cjs`);
        return existsSync(built) ? JSON.stringify(built) : own;
      },
    );
  },
};

const common = {
  setupFiles: ["packages/holdfast/test/property-seed.ts", "packages/holdfast/test/time-limit.ts"],
  // These limits end a test that hangs. They are generous, so that a busy machine never fails one that is slow.
  testTimeout: 600_000,
  hookTimeout: 600_000,
};

const quick = (): TestProjectConfiguration => ({
  test: { ...common, name: "quick", include: [...quickTests()], isolate: false, pool: "forks" },
});

const light: TestProjectConfiguration = {
  plugins: [programs],
  test: { ...common, name: "light", include: which === "slow" ? [] : LIGHT, isolate: false, pool: "forks" },
};

const adapters: TestProjectConfiguration = {
  plugins: [programs],
  test: {
    ...common,
    name: "adapters",
    include: [`packages/*/src/**/*${ends}`],
    exclude: [...LIGHT, ...exclude],
    pool: "forks",
  },
};

const promises: TestProjectConfiguration = {
  plugins: [programs],
  test: { ...common, name: "promises", include: [`packages/holdfast/test/**/*${ends}`], exclude, pool: "forks" },
};

/** Sweeps take long and their files are short: vitest, which begins with the largest file, would start them last, and the end would wait for one of them. */
class SweepsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isSweep = ({ moduleId }: TestSpecification): boolean =>
      /\/(?:faults|endurance)\/[^/]+\.slow\./.test(moduleId);
    const sorted = await super.sort(files);
    return [...sorted.filter(isSweep), ...sorted.filter((file) => !isSweep(file))];
  }
}

/** The first test that needs PostgreSQL starts the server there. */
function sharePostgres(): void {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-pg-"));
  chmodSync(directory, 0o755);
  process.env[SHARED] = directory;
  process.env[SHARED_BY] = String(process.pid);
  process.on("exit", () => stopSharedPostgres(directory));
}

useMemory();
keepCompiledCode();
sharePostgres();

export default defineConfig({
  test: {
    // Tests wait for programs and timers, the slow ones most of their time. The default is one fewer than there are processors.
    maxWorkers: which === "slow" ? 2 * availableParallelism() : availableParallelism() + 1,
    sequence: { sequencer: SweepsFirst },
    projects: which === "quick" ? [quick()] : [light, adapters, promises],
  },
});
