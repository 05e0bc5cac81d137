import fc from "fast-check";
import { expect, test } from "vitest";
import { NO_FILTER, PLANES, type Route, TABS, hrefOf, parseRoute } from "./router.ts";

const parse = (href: string): Route => {
  const url = new URL(href, "http://127.0.0.1");
  return parseRoute(url.pathname, url.search);
};

test.each<[string, Route]>([
  ["/", { page: "home" }],
  ["/inbox", { page: "inbox", run: null }],
  ["/inbox/shop/issue-42", { page: "inbox", run: "shop/issue-42" }],
  ["/runs?repo=shop&q=login", { page: "runs", filter: { ...NO_FILTER, repo: "shop", q: "login" } }],
  ["/r/shop/issue-42", { page: "run", run: "shop/issue-42", tab: "now", between: null, file: null, entry: null }],
  [
    "/r/shop/issue-42/journal",
    { page: "run", run: "shop/issue-42", tab: "journal", between: null, file: null, entry: null },
  ],
  [
    "/r/shop~1f3a/issue-42/@5..9?file=src%2Fgreet.js",
    { page: "run", run: "shop~1f3a/issue-42", tab: "changes", between: [5, 9], file: "src/greet.js", entry: null },
  ],
  [
    "/r/shop/issue-42/@base..worktree",
    { page: "run", run: "shop/issue-42", tab: "changes", between: ["base", "worktree"], file: null, entry: null },
  ],
  [
    "/r/shop/issue-42/@9?plane=state&against=5",
    { page: "checkpoint", run: "shop/issue-42", sequence: 9, plane: "state", against: 5, file: null },
  ],
  [
    "/r/shop/issue-42/entry/48",
    { page: "run", run: "shop/issue-42", tab: "journal", between: null, file: null, entry: 48 },
  ],
  ["/compare?a=shop/a@7&b=shop/b", { page: "compare", runs: ["shop/a@7", "shop/b"] }],
  ["/compare?r=shop%2Fa%407&r=shop%2Fb", { page: "compare", runs: ["shop/a@7", "shop/b"] }],
  ["/r/shop/issue-42/report", { page: "report", run: "shop/issue-42" }],
])("%s", (href, route) => {
  expect(parse(href)).toEqual(route);
  expect(parse(hrefOf(route))).toEqual(route);
});

test.each([
  "/r",
  "/r/shop",
  "/r/shop/issue-42/@",
  "/r/shop/issue-42/@0",
  "/r/shop/issue-42/@base",
  "/r/shop/issue-42/@1..2..3",
  "/r/shop/issue-42/no-such-tab",
  "/r/shop/issue-42/@9/more",
  "/r/shop/issue-42/entry",
  "/r/shop/issue-42/entry/0",
  "/r/shop/issue-42/entry/base",
  "/r/shop/issue-42/journal/48",
  "/%E0%A4%A",
  "/elsewhere",
  "/inbox/shop",
])("%s is unknown", (path) => {
  expect(parseRoute(path, "")).toEqual({ page: "unknown", path });
});

test("any address that the page makes leads back to the same place", () => {
  const name = fc.string({ minLength: 1, unit: "grapheme" }).filter((text) => !/^\.{1,2}$/.test(text));
  const run = fc
    .tuple(name, name)
    .map(([repository, id]) => `${repository.replaceAll("/", "_")}/${id.replaceAll("/", "_")}`);
  const point = fc.oneof(fc.integer({ min: 1, max: 99_999 }), fc.constantFrom("base" as const, "worktree" as const));
  const file = fc.option(name);
  const route: fc.Arbitrary<Route> = fc.oneof(
    fc.record({
      page: fc.constant("run" as const),
      run,
      tab: fc.constantFrom(...TABS),
      between: fc.constant(null),
      file,
      entry: fc.constant(null),
    }),
    fc.record({
      page: fc.constant("run" as const),
      run,
      tab: fc.constant("changes" as const),
      between: fc.tuple(point, point),
      file,
      entry: fc.constant(null),
    }),
    fc.record({
      page: fc.constant("run" as const),
      run,
      tab: fc.constant("journal" as const),
      between: fc.constant(null),
      file: fc.constant(null),
      entry: fc.integer({ min: 1, max: 99_999 }),
    }),
    fc.record({
      page: fc.constant("checkpoint" as const),
      run,
      sequence: fc.integer({ min: 1, max: 99_999 }),
      plane: fc.constantFrom(...PLANES),
      against: fc.option(point),
      file,
    }),
    fc.record({ page: fc.constant("inbox" as const), run: fc.option(run) }),
    fc.record({ page: fc.constant("compare" as const), runs: fc.array(run) }),
    fc.record({
      page: fc.constant("runs" as const),
      filter: fc.record({ repo: fc.string(), status: fc.string(), workflow: fc.string(), q: fc.string() }),
    }),
  );
  fc.assert(
    fc.property(route, (one) => {
      expect(parse(hrefOf(one))).toEqual(one);
    }),
  );
});
