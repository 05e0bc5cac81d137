import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson } from "@holdfast/core/values";
import { REPLY_REFERENCE_TEXT, parsePosition, parseReply, positionForm, proseOf, replyForm } from "./reply.ts";

describe("reply", () => {
  const ANSWER = {
    status: "SUCCESS",
    summary: "Implemented it.",
    outputs: ["docs/spec.md"],
    files_modified: ["a.ts"],
    files_created: ["b.ts"],
    findings: [
      {
        id: "F-001",
        severity: "HIGH",
        category: "security",
        title: "t",
        description: "d",
        location: "a.ts:1",
        recommendation: "r",
        confidence: 90,
      },
    ],
    recommendations: [{ scope: "s", choice: "c", rationale: "why", confidence: 70, actionable: true }],
    handoff: { to: "dev-go", reason: "Go" },
    follow_ups: [{ agent: "techwriter", action: "document", task: "write" }],
    escalate: { reason: "Who pays?", options: ["us", "them"] },
    broadcasts: [{ event: "CHECKPOINT", message: "before the migration" }],
    knowledge: [{ type: "decision", content: "k", tags: ["t"] }],
  };

  test("an answer in the right form is read completely", () => {
    const { files_modified, files_created, follow_ups, ...rest } = ANSWER;
    const expected = { ...rest, filesModified: files_modified, filesCreated: files_created, followUps: follow_ups };
    expect(parseReply(`Done.\n\`\`\`json\n${JSON.stringify(ANSWER, null, 2)}\n\`\`\``)).toEqual({
      ...expected,
    });
  });

  describe("it is read with tolerance", () => {
    test("other spellings, numbers as texts, lists as lines, one object for a list", () => {
      const said = {
        Status: "success",
        summary: ["a", "b"],
        filesModified: "- a.ts\n- b.ts\n",
        findings: { title: "t", severity: "high", confidence: "85%" },
        recommendations: [{ scope: "s", choice: "c", confidence: 0.9 }, { scope: "", choice: "c" }, "text", null],
      };
      expect(parseReply(JSON.stringify(said))).toMatchObject({
        status: "SUCCESS",
        summary: '["a","b"]',
        filesModified: ["a.ts", "b.ts"],
        findings: [{ title: "t", severity: "HIGH", confidence: 85 }],
        recommendations: [{ scope: "s", choice: "c", confidence: 90, actionable: true }],
        handoff: null,
        knowledge: [],
      });
    });

    test("the last object with a status counts", () => {
      const text = '{"status":"FAILED","summary":"a draft"} then {"status":"BLOCKED","summary":"b"} and {"x":1}';
      expect(parseReply(text)).toMatchObject({ status: "BLOCKED", summary: "b" });
    });

    test("an answer without a summary has its text as one", () => {
      expect(parseReply('I could not. {"status":"FAILED"}').summary).toBe('I could not. {"status":"FAILED"}');
    });

    test.each([
      "",
      "All done!",
      '{"summary":"no status"}',
      '{"status":"GREAT"}',
      '{"status":"SUCCESS"',
      REPLY_REFERENCE_TEXT,
    ])("an unreadable answer is PARTIAL with the text as its summary: %#", (text) => {
      expect(parseReply(text)).toMatchObject({
        status: "PARTIAL",
        summary: text.trim(),
        findings: [],
      });
    });

    test("a long one is cut, and never inside a character", () => {
      const summary = `\ud83d${"x".repeat(10_000)}`;
      const long = parseReply(
        JSON.stringify({ status: "SUCCESS", summary, findings: Array.from({ length: 500 }, () => ({ title: "t" })) }),
      );
      expect(long.summary.length).toBe(4000);
      expect(long.findings).toHaveLength(100);
      expect(() => canonicalJson(long)).not.toThrow();
      expect(parseReply("y".repeat(10_000)).summary).toHaveLength(4000);
    });
  });

  test("any text of an agent makes a reply that can be stored", () => {
    const field = fc.oneof(fc.jsonValue(), fc.constantFrom("SUCCESS", "high", "85%", "\ud800"));
    const object = fc.dictionary(fc.constantFrom(...Object.keys(ANSWER), "__proto__", "x"), field);
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          object.map((one) => `text ${JSON.stringify(one)}`),
        ),
        (text) => {
          const reply = parseReply(text);
          expect(parseReply(text)).toEqual(reply);
          expect(() => canonicalJson(reply)).not.toThrow();
          for (const one of reply.findings) expect(one.confidence >= 0 && one.confidence <= 100).toBe(true);
          const position = parsePosition(text, "a");
          if (position !== null) expect(() => canonicalJson(position)).not.toThrow();
        },
      ),
    );
  });

  test("the reference describes every member that is read; a prompt names them and points to it", () => {
    for (const name of Object.keys(ANSWER)) expect(REPLY_REFERENCE_TEXT).toContain(`"${name}": `);
    expect(REPLY_REFERENCE_TEXT).toContain('"status": "SUCCESS | PARTIAL | BLOCKED | FAILED"');
    for (const name of ["choice", "confidence", "relevance", "compromise", "hybrid", "veto", "escalate"])
      expect(REPLY_REFERENCE_TEXT).toContain(`"${name}": `);
    for (const findings of [true, false])
      for (const name of Object.keys(ANSWER)) expect(replyForm({ findings })).toContain(name);
    for (const form of [replyForm({ findings: true }), replyForm({ findings: false }), positionForm()]) {
      expect(form).toContain(".tmp/crunch-reply.md");
      expect(form.length).toBeLessThan(700);
    }
  });

  describe("a position", () => {
    test("is read with tolerance", () => {
      const said = {
        choice: "Redis",
        confidence: "90",
        relevance: 70,
        compromise: { acceptable: "yes", hybrid: "" },
        veto: { severity: "critical", target: "a cookie", reason: "leaks" },
        escalate: "Business Impact",
      };
      expect(parsePosition(`I think ${JSON.stringify(said)}`, "dev-go")).toMatchObject({
        agent: "dev-go",
        choice: "Redis",
        confidence: 90,
        relevance: 0.7,
        compromise: { acceptable: true, hybrid: null, conditions: [] },
        veto: { severity: "CRITICAL", target: "a cookie" },
        escalate: "business_impact",
      });
    });

    test.each(["", "Redis!", '{"rationale":"because"}', positionForm()])("without a choice is not one: %#", (text) => {
      expect(parsePosition(text, "dev-go")).toBeNull();
    });

    test("a veto without target or reason is ignored", () => {
      expect(
        parsePosition('{"choice":"a","veto":{"severity":"CRITICAL","target":"","reason":"x"}}', "x")?.veto,
      ).toBeNull();
      expect(parsePosition('{"choice":"a","veto":true}', "x")?.veto).toBeNull();
    });
  });
});

describe("prose", () => {
  test("is the text before the final JSON, including its own fences", () => {
    const answer = '# Plan\n```json\n{"a": 1}\n```\nDone.\n```json\n{"status": "SUCCESS"}\n```\n';
    expect(proseOf(answer)).toBe('# Plan\n```json\n{"a": 1}\n```\nDone.');
  });

  test("of an answer with only JSON is empty; of a very long one it is the beginning, with a mark that it is cut", () => {
    expect(proseOf('```json\n{"status": "SUCCESS"}\n```')).toBe("");
    expect(proseOf('{"status": "SUCCESS"}')).toBe("");
    expect(proseOf(`${"a".repeat(20_000)}\n\`\`\`json\n{}\n\`\`\``)).toBe(`${"a".repeat(12_000)}\n(cut here)`);
  });
});
