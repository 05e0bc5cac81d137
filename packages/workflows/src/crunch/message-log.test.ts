import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleRequest, sampleResponse } from "@holdfast/test-support/workflows/crunch-sample";
import {
  type MessageLog,
  answerTo,
  awaitingMessages,
  deliverMessage,
  emptyMessages,
  messagesToResend,
  parseMessage,
  pendingMessages,
  sendMessage,
  withdrawMessage,
} from "./message-log.ts";
import { type Message, messageId } from "./messages.ts";

describe("message book", () => {
  const request = sampleRequest("r");
  const response = sampleResponse("a", request.id);

  function fold(...messages: readonly Message[]): MessageLog {
    return messages.reduce(sendMessage, emptyMessages);
  }

  describe("the life of a request", () => {
    test("pending, then awaiting, then answered", () => {
      const sent = fold(request);
      expect(pendingMessages(sent)).toEqual([request]);
      const delivered = deliverMessage(sent, request.id);
      expect([pendingMessages(delivered), awaitingMessages(delivered)]).toEqual([[], [request]]);
      const answered = sendMessage(delivered, response);
      expect([pendingMessages(answered), awaitingMessages(answered)]).toEqual([[], []]);
      expect(answerTo(answered, request.id)).toEqual(response);
    });

    test("an answer proves the delivery that a crash left unrecorded", () => {
      const answered = fold(request, response);
      expect(messagesToResend(answered)).toEqual([]);
      expect(deliverMessage(answered, request.id)).toBe(answered);
    });

    test("withdrawn, it is neither sent again nor answered; answered, it stays so", () => {
      const withdrawn = withdrawMessage(fold(request), { id: request.id, why: "its node failed" });
      expect(messagesToResend(withdrawn)).toEqual([]);
      expect(sendMessage(withdrawn, response).refused).toMatchObject([{ why: /withdrawn: its node failed/ }]);
      const answered = fold(request, response);
      expect(withdrawMessage(answered, { id: request.id, why: "late" })).toBe(answered);
    });
  });

  test("stored whole: what is sent again after a crash says what it said (ids alone would not do)", () => {
    const stored: MessageLog = JSON.parse(JSON.stringify(deliverMessage(fold(request), request.id)));
    expect(messagesToResend(stored)).toEqual([request]);
  });

  describe("answered at most once", () => {
    test("a second answer is kept as refused, with the reason", () => {
      const second = sampleResponse("b", request.id);
      const book = fold(request, response, second);
      expect(answerTo(book, request.id)).toEqual(response);
      expect(book.refused).toEqual([{ message: second, why: `${request.id} was answered by ${response.id}` }]);
      expect(sendMessage(book, second)).toBe(book);
    });

    test("the same answer again changes nothing", () => {
      const book = fold(request, response);
      expect(sendMessage(book, response)).toBe(book);
    });

    test.each([
      ["an answer to nothing", sampleResponse("b", "MSG-1-00000000"), /there is no message/],
      [
        "an answer by another agent",
        sampleResponse("b", request.id, { from: "dev-go" }),
        /went to reviewer, not dev-go/,
      ],
      ["another message under the same id", { ...request, priority: "LOW" } as Message, /another message already/],
    ])("%s is refused", (_, message, why) => {
      expect(fold(request, message).refused).toEqual([{ message, why: expect.stringMatching(why) }]);
    });

    test("a response answers no response", () => {
      const odd = sampleResponse("c", response.id, { from: "orchestrator" });
      expect(fold(request, response, odd).refused).toMatchObject([{ why: /RESPONSE is not answered by a RESPONSE/ }]);
    });
  });

  test("who escalates instead of answering has answered, and waits for an answer itself", () => {
    const escalation: Message = {
      ...response,
      id: "MSG-1-0000000e",
      to: "user",
      type: "ESCALATE",
      payload: {
        escalationType: "BLOCKED",
        severity: "HIGH",
        reason: "r",
        decisionNeeded: "d",
        options: [],
        recommendation: null,
        veto: null,
      },
    };
    const book = fold(request, escalation);
    expect(answerTo(book, request.id)).toEqual(escalation);
    expect(messagesToResend(book)).toEqual([escalation]);
    const word = sampleResponse("w", escalation.id, { from: "user" });
    expect(messagesToResend(sendMessage(book, word))).toEqual([]);
  });

  type Act =
    | { readonly do: "request" | "deliver" | "withdraw"; readonly of: number }
    | { readonly do: "answer"; readonly of: number; readonly as: number };

  const someAct: fc.Arbitrary<Act> = fc.oneof(
    fc.record({ do: fc.constantFrom("request" as const, "deliver" as const, "withdraw" as const), of: fc.nat(3) }),
    fc.record({ do: fc.constant("answer" as const), of: fc.nat(3), as: fc.nat(2) }),
  );

  function act(book: MessageLog, one: Act): MessageLog {
    const { id } = sampleRequest(`r${one.of}`);
    switch (one.do) {
      case "request":
        return sendMessage(book, sampleRequest(`r${one.of}`));
      case "deliver":
        return deliverMessage(book, id);
      case "withdraw":
        return withdrawMessage(book, { id, why: "w" });
      case "answer":
        return sendMessage(book, sampleResponse(`a${one.of}-${one.as}`, id));
    }
  }

  test("whatever happens: none is both pending and answered, none has two answers, and none vanishes", () => {
    fc.assert(
      fc.property(fc.array(someAct, { maxLength: 30 }), (acts) => {
        let book = emptyMessages;
        for (const one of acts) {
          const next = act(book, one);
          // A message keeps its first answer.
          for (const { message } of book.records) {
            const before = answerTo(book, message.id);
            if (before !== null) expect(answerTo(next, message.id)).toEqual(before);
          }
          expect(next.records.length).toBeGreaterThanOrEqual(book.records.length);
          expect(act(next, one)).toEqual(next);
          book = next;
        }
        const open = new Set(messagesToResend(book).map((message) => message.id));
        for (const { message } of book.records)
          expect(open.has(message.id) && answerTo(book, message.id) !== null).toBe(false);
        const answers = book.records.flatMap(({ message }) =>
          message.type === "RESPONSE" ? [message.correlation] : [],
        );
        expect(new Set(answers).size).toBe(answers.length);
        const sent = new Set(acts.flatMap((one) => (one.do === "request" ? [one.of] : [])));
        expect(book.records.filter(({ message }) => message.type === "REQUEST")).toHaveLength(sent.size);
      }),
    );
  });
});

describe("parse message", () => {
  const { payload: _, type: __, ...base } = sampleRequest("base");

  /** One of each type, with every field filled. */
  const EACH: readonly Message[] = [
    sampleRequest("request"),
    sampleResponse("response", sampleRequest("request").id, {
      payload: {
        status: "BLOCKED",
        result: { summary: "s", outputs: ["o"], filesModified: ["a"], filesCreated: ["b"] },
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
        metrics: { durationMs: 5, tokens: 7 },
        handoff: { to: "dev-go", reason: "it is Go" },
      },
    }),
    {
      ...base,
      type: "HANDOFF",
      payload: {
        reason: "r",
        recommendedAgent: "dev-go",
        contextTransfer: { workCompleted: ["a"], remainingWork: ["b"], relevantFindings: ["F-001"] },
        urgency: "IMMEDIATE",
      },
    },
    {
      ...base,
      type: "ESCALATE",
      payload: {
        escalationType: "VETO",
        severity: "CRITICAL",
        reason: "r",
        decisionNeeded: "d",
        options: [{ option: "o", pros: "p", cons: "c" }],
        recommendation: "o",
        veto: { target: "t", vulnerability: "v", alternative: "a" },
      },
    },
    {
      ...base,
      to: "*",
      type: "BROADCAST",
      payload: { event: "PHASE_CHANGE", message: "m", data: { phase: "docs" }, affects: ["reviewer"] },
    },
    {
      ...base,
      type: "VOTE",
      payload: {
        conflict: "CONF-1",
        round: 1,
        choice: "c",
        rationale: "r",
        evidence: ["e"],
        confidence: 90,
        relevance: 0.5,
        compromise: { acceptable: true, conditions: ["x"], hybrid: "h" },
        veto: { severity: "HIGH", target: "t", reason: "r" },
        escalate: "no_precedent",
      },
    },
  ];

  test.each(EACH)("a $type is taken as it is, and again after a trip through JSON", (message) => {
    const parsed = parseMessage(JSON.parse(JSON.stringify(message)));
    expect(parsed).toEqual({ kind: "message", message });
  });

  describe("what is no message is refused with a code and a place", () => {
    test.each(EACH)("a $type with any one field gone or of another kind", (message) => {
      for (const path of pathsOf(message)) {
        for (const wrong of [undefined, "another text", [[]], -7.5]) {
          const spoilt = withAt(message, path, wrong);
          const shorterList = wrong === undefined && /^\d+$/.test(path.at(-1) ?? "");
          if (shorterList || JSON.stringify(spoilt) === JSON.stringify(message)) continue;
          const parsed = parseMessage(spoilt);
          // Any text is valid in place of a text, and `data` may hold anything.
          if (parsed.kind === "message") expect(typeof wrong === "string" || path.includes("data")).toBe(true);
          else expect(parsed.why).not.toBe("");
        }
      }
    });

    test.each([
      [null, "NOT_A_MESSAGE", ""],
      ["text", "NOT_A_MESSAGE", ""],
      [{}, "NOT_A_MESSAGE", "/type"],
      [{ ...EACH[0], type: "ORDER" }, "NOT_A_MESSAGE", "/type"],
      [{ ...EACH[0], type: "constructor" }, "NOT_A_MESSAGE", "/type"],
      [{ ...EACH[0], id: "../../x" }, "BAD_ID", "/id"],
      [{ ...EACH[0], timestamp: "yesterday" }, "BAD_TIME", "/timestamp"],
      [{ ...EACH[0], from: " " }, "BAD_FIELD", "/from"],
      [{ ...EACH[0], correlation: EACH[0]?.id }, "BAD_FIELD", "/correlation"],
      [{ ...EACH[0], priority: "URGENT" }, "BAD_FIELD", "/priority"],
      [{ ...EACH[5], payload: { ...EACH[5]?.payload, confidence: 101 } }, "BAD_FIELD", "/payload/confidence"],
      [{ ...EACH[0], from: "\ud800" }, "NOT_JSON", ""],
      [{ ...EACH[0], extra: () => 1 }, "NOT_JSON", ""],
      [{ ...EACH[0], extra: "x".repeat(1_000_001) }, "TOO_LARGE", ""],
    ])("%#: %s", (value, code, path) => {
      expect(parseMessage(value)).toMatchObject({ kind: "refused", code, path });
    });

    test("anything at all is either a message or refused; nothing throws", () => {
      fc.assert(
        fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true }), (value) => {
          expect(parseMessage(value).kind).toBe("refused");
        }),
      );
    });
  });

  test("an id follows from its parts, and differs when one does", () => {
    const parts = { at: "2026-01-14T10:30:00.000Z", from: "a", to: "b", key: "k" };
    expect(messageId(parts)).toBe(messageId({ ...parts }));
    expect(messageId(parts)).toMatch(/^MSG-1768386600000-[0-9a-f]{8}$/);
    const others = [{ from: "b" }, { to: "a" }, { key: "l" }, { at: "2026-01-14T10:30:00.001Z" }];
    const ids = [parts, ...others.map((change) => ({ ...parts, ...change }))].map((one) => messageId(one));
    expect(new Set(ids).size).toBe(5);
  });

  function pathsOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => [[...path, key], ...pathsOf(inner, [...path, key])]);
  }

  function withAt(value: unknown, path: readonly string[], wrong: unknown): unknown {
    const [key, ...rest] = path;
    if (key === undefined) return wrong;
    const copy: Record<string, unknown> = { ...(value as Record<string, unknown>) };
    copy[key] = withAt(copy[key], rest, wrong);
    if (copy[key] === undefined) delete copy[key];
    return Array.isArray(value) ? Object.values(copy) : copy;
  }
});
