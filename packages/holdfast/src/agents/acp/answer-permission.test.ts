import { describe, expect, test } from "vitest";
import { answerPermission } from "./answer-permission.ts";

describe("permissions", () => {
  const options = ["allow_always", "allow_once", "reject_once"].map((kind) => ({ kind, optionId: `id-${kind}` }));
  const ask = (toolCall: object, yolo: boolean, offered: readonly object[] = options) =>
    answerPermission({ request: { options: offered, toolCall }, yolo, isInside: (path) => path.startsWith("/tree/") });
  const shell = { kind: "execute", title: "rm -rf /" };

  test("with yolo all is allowed, once rather than always", () => {
    const allowed = { outcome: { outcome: "selected", optionId: "id-allow_once" }, denied: null };
    expect(ask(shell, true)).toEqual(allowed);
    expect(ask(shell, true, options.slice(0, 1)).outcome).toEqual({ outcome: "selected", optionId: "id-allow_always" });
  });

  test("without, only edits of files in the worktree", () => {
    const edit = (...paths: readonly string[]) => ({ kind: "edit", locations: paths.map((path) => ({ path })) });
    expect(ask(edit("/tree/a", "/tree/b"), false).denied).toBeNull();
    expect(ask(edit("/tree/a", "/etc/b"), false).denied).toBe("edit");
    expect(ask(edit(), false).denied).toBe("edit");
    expect(ask(shell, false)).toEqual({
      outcome: { outcome: "selected", optionId: "id-reject_once" },
      denied: "rm -rf /",
    });
  });

  test("who offers nothing that fits is told that it is cancelled, which is a denial", () => {
    expect(ask(shell, false, options.slice(0, 2))).toEqual({ outcome: { outcome: "cancelled" }, denied: "rm -rf /" });
    expect(ask(shell, true, []).denied).toBe("rm -rf /");
  });
});
