import fc from "fast-check";
import { expect, test } from "vitest";
import { type ComplexitySigns, needsOrchestrator, scoreComplexity } from "./team.ts";

const NOTHING: ComplexitySigns = { domains: [], files: 0, breaking: false, priorFailures: 0 };

test.each<readonly [string, Partial<ComplexitySigns>, number]>([
  ["nothing", {}, 0],
  ["one domain", { domains: ["go"] }, 0],
  ["two domains", { domains: ["go", "api"] }, 2],
  ["one domain twice", { domains: ["go", "go"] }, 0],
  ["nine files", { files: 9 }, 0],
  ["ten files", { files: 10 }, 1],
  ["security", { domains: ["security"] }, 3],
  ["a breaking change", { breaking: true }, 2],
  ["an earlier failure", { priorFailures: 1 }, 2],
  ["all of it", { domains: ["security", "api"], files: 10, breaking: true, priorFailures: 3 }, 10],
])("%s: %j is %i", (_, signs, score) => {
  expect(scoreComplexity({ ...NOTHING, ...signs }).score).toBe(score);
});

test.each([
  [{}, "LOW"],
  [{ breaking: true }, "LOW"],
  [{ domains: ["security"] }, "MEDIUM"],
  [{ breaking: true, priorFailures: 1 }, "MEDIUM"],
  [{ domains: ["security"], breaking: true }, "HIGH"],
  [{ domains: ["security", "api"], breaking: true }, "HIGH"],
  [{ domains: ["security", "api"], breaking: true, files: 10 }, "CRITICAL"],
])("%j is %s", (signs, level) => {
  expect(scoreComplexity({ ...NOTHING, ...signs }).level).toBe(level);
});

const someSigns = fc.record({
  domains: fc.array(fc.constantFrom("security", "api", "go"), { maxLength: 3 }),
  files: fc.nat(20),
  breaking: fc.boolean(),
  priorFailures: fc.nat(2),
});

test("more signs never lower the complexity", () => {
  const order = ["LOW", "MEDIUM", "HIGH", "CRITICAL"];
  fc.assert(
    fc.property(someSigns, someSigns, (one, other) => {
      const more = {
        domains: [...one.domains, ...other.domains],
        files: Math.max(one.files, other.files),
        breaking: one.breaking || other.breaking,
        priorFailures: one.priorFailures + other.priorFailures,
      };
      const [less, greater] = [scoreComplexity(one), scoreComplexity(more)];
      expect(greater.score).toBeGreaterThanOrEqual(less.score);
      expect(order.indexOf(greater.level)).toBeGreaterThanOrEqual(order.indexOf(less.level));
    }),
  );
});

test.each([
  [{ score: 4 }, false],
  [{ score: 5 }, true],
  [{ domains: ["go", "api"] }, true],
  [{ complex: true }, true],
  [{ priorFailures: 1 }, true],
])("an orchestrator for %j: %s", (given, wanted) => {
  expect(needsOrchestrator({ score: 0, domains: [], complex: false, priorFailures: 0, ...given })).toBe(wanted);
});
