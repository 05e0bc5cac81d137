import { expect, test } from "vitest";
import { parseScript } from "./parse-script.ts";

function problemsOf(text: string): readonly string[] {
  const parsed = parseScript(text);
  return parsed.ok ? [] : parsed.problems;
}

test("YAML and JSON give the same script", () => {
  const yaml = `answers:
  - when: { role: impl, iteration: [1, 2] }
    edits:
      - { do: write, path: src/a.ts, text: "export {};\\n", mode: "755" }
    reply: done
`;
  const answers = [
    {
      when: { role: "impl", iteration: [1, 2] },
      edits: [{ do: "write", path: "src/a.ts", text: "export {};\n", mode: "755" }],
      reply: "done",
    },
  ];
  expect(parseScript(yaml)).toEqual({ ok: true, script: { answers } });
  expect(parseScript(JSON.stringify({ answers }, null, "\t"))).toEqual({ ok: true, script: { answers } });
});

test.each([
  ["answers:\n  - reply: x\n    relpy: y\n", '3:5: answers[0]: unknown key "relpy"; did you mean reply?\n  relpy: y'],
  [
    "answers:\n  - when: { rol: impl }\n",
    '2:13: answers[0].when: unknown key "rol"; did you mean role?\n  - when: { rol: impl }',
  ],
  [
    "answers:\n  - edits:\n      - { do: wrte, path: a }\n",
    /^3:11: answers\[0\]\.edits\[0\]\.do: expected do: write, append/,
  ],
  [
    "answers:\n  - edits:\n      - { do: write, path: ../a, text: x }\n",
    /^3:22: answers\[0\]\.edits\[0\]\.path: expected a path below/,
  ],
  ["answers:\n  - edits:\n      - { do: write, path: .git/hooks/x, text: x }\n", /path below the worktree/],
  ["answers:\n  - edits:\n      - { do: write, path: /etc/x, text: x }\n", /path below the worktree/],
  ["answers:\n  - edits:\n      - { do: write, path: a }\n", /^3:9: answers\[0\]\.edits\[0\]\.text: expected a text/],
  ["answers:\n  - fail: { cause: tired }\n", /^2:13: answers\[0\]\.fail\.cause: expected one of rate_limit/],
  ["answers:\n  - delayMs: -1\n", /^2:5: answers\[0\]\.delayMs: expected a whole number from 0/],
  ["answers:\n  - exit: 256\n", /^2:5: answers\[0\]\.exit: expected an exit code/],
  ["answers: 3\n", /^1:1: answers: expected a list of answers/],
  ["- reply: x\n", /^1:1: the script: expected keys and values/],
  ["", /^1:1: the script: expected keys and values/],
  ["answers:\n  - reply: x\n  - reply: 'y\n", /^\d+:\d+: /],
  ["answers:\n  - reply: x\n    reply: y\n", /^3:5: .*unique/],
])("%j is reported with its line", (text, expected) => {
  const [first] = problemsOf(text);
  if (typeof expected === "string") expect(first).toBe(expected);
  else expect(first).toMatch(expected);
});

test("every problem is reported, in the order of the lines", () => {
  const problems = problemsOf("answers:\n  - a: 1\n  - b: 1\n  - hang: maybe\n");
  expect(problems.map((problem) => problem.split(":")[0])).toEqual(["2", "3", "4"]);
});

test("a file that expands into a huge document is refused", () => {
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nanswers: [*c,*c,*c]\n`;
  expect(problemsOf(bomb).length).toBeGreaterThan(0);
});
