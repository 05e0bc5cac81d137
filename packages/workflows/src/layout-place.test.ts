import { expect, test } from "vitest";
import { planLayoutPlace } from "./layout-place.ts";

const FIRST = { recorded: null, layout: "own", directory: null, isPresent: false } as const;

test.each([
  ["a repository without the tool's files gets none", FIRST, { kind: "own" }],
  ["files of the tool are joined", { ...FIRST, isPresent: true }, { kind: "seed" }],
  ["`layout: seed` asks for them", { ...FIRST, layout: "seed" }, { kind: "seed" }],
  ["a named directory asks for them there", { ...FIRST, directory: "/a" }, { kind: "directory", path: "/a" }],
  [
    "a recorded place stays, whatever the settings say",
    { ...FIRST, layout: "seed", recorded: { kind: "own" } },
    { kind: "own" },
  ],
  ["so does a place in the repository", { ...FIRST, directory: "/a", recorded: { kind: "seed" } }, { kind: "seed" }],
] as const)("%s", (_title, params, place) => {
  expect(planLayoutPlace(params)).toEqual(place);
});
