import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleRequest, sampleResponse } from "@holdfast/test-support/workflows/crunch-sample";
import {
  type MessageLog,
  awaitingMessages,
  deliverMessage,
  emptyMessages,
  findMessage,
  pendingMessages,
  sendMessage,
  withdrawMessage,
} from "./message-log.ts";
import { type Message, messageId } from "./messages.ts";

describe("message log", () => {
  const request = sampleRequest("r");
  const response = sampleResponse("a", request.id);

  const unanswered = (log: MessageLog): readonly Message[] => [...pendingMessages(log), ...awaitingMessages(log)];

  function answerTo(log: MessageLog, id: string): Message | null {
    const status = findMessage(log, id)?.status;
    return status?.kind === "answered" ? (findMessage(log, status.by)?.message ?? null) : null;
  }

  function fold(...messages: readonly Message[]): MessageLog {
    return messages.reduce(sendMessage, emptyMessages);
  }

  describe("states of a request", () => {
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
      expect(unanswered(answered)).toEqual([]);
      expect(deliverMessage(answered, request.id)).toBe(answered);
    });

    test("a withdrawn request is neither sent again nor answered; an answered one stays answered", () => {
      const withdrawn = withdrawMessage(fold(request), { id: request.id, why: "its node failed" });
      expect(unanswered(withdrawn)).toEqual([]);
      expect(sendMessage(withdrawn, response).refused).toMatchObject([
        { why: expect.stringMatching(/withdrawn: its node failed/) },
      ]);
      const answered = fold(request, response);
      expect(withdrawMessage(answered, { id: request.id, why: "late" })).toBe(answered);
    });
  });

  test("messages are stored completely: a message sent again after a crash has the same text (ids alone would not do)", () => {
    const stored: MessageLog = JSON.parse(JSON.stringify(deliverMessage(fold(request), request.id)));
    expect(unanswered(stored)).toEqual([request]);
  });

  describe("answered at most once", () => {
    test("a second answer is kept as refused, with the reason", () => {
      const second = sampleResponse("b", request.id);
      const log = fold(request, response, second);
      expect(answerTo(log, request.id)).toEqual(response);
      expect(log.refused).toEqual([{ message: second, why: `${request.id} was answered by ${response.id}` }]);
      expect(sendMessage(log, second)).toBe(log);
    });

    test("the same answer again changes nothing", () => {
      const log = fold(request, response);
      expect(sendMessage(log, response)).toBe(log);
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
      expect(fold(request, response, odd).refused).toMatchObject([
        { why: expect.stringMatching(/RESPONSE is not answered by a RESPONSE/) },
      ]);
    });
  });

  test("an agent that escalates instead of answering has answered, and waits for an answer itself", () => {
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
    const log = fold(request, escalation);
    expect(answerTo(log, request.id)).toEqual(escalation);
    expect(unanswered(log)).toEqual([escalation]);
    const word = sampleResponse("w", escalation.id, { from: "user" });
    expect(unanswered(sendMessage(log, word))).toEqual([]);
  });

  type Act =
    | { readonly do: "request" | "deliver" | "withdraw"; readonly of: number }
    | { readonly do: "answer"; readonly of: number; readonly as: number };

  const someAct: fc.Arbitrary<Act> = fc.oneof(
    fc.record({ do: fc.constantFrom("request" as const, "deliver" as const, "withdraw" as const), of: fc.nat(3) }),
    fc.record({ do: fc.constant("answer" as const), of: fc.nat(3), as: fc.nat(2) }),
  );

  function act(log: MessageLog, one: Act): MessageLog {
    const { id } = sampleRequest(`r${one.of}`);
    switch (one.do) {
      case "request":
        return sendMessage(log, sampleRequest(`r${one.of}`));
      case "deliver":
        return deliverMessage(log, id);
      case "withdraw":
        return withdrawMessage(log, { id, why: "w" });
      case "answer":
        return sendMessage(log, sampleResponse(`a${one.of}-${one.as}`, id));
    }
  }

  test("for any events: no message is both pending and answered, none has two answers, and none is lost", () => {
    fc.assert(
      fc.property(fc.array(someAct, { maxLength: 30 }), (acts) => {
        let log = emptyMessages;
        for (const one of acts) {
          const next = act(log, one);
          // A message keeps its first answer.
          for (const { message } of log.records) {
            const before = answerTo(log, message.id);
            if (before !== null) expect(answerTo(next, message.id)).toEqual(before);
          }
          expect(next.records.length).toBeGreaterThanOrEqual(log.records.length);
          expect(act(next, one)).toEqual(next);
          log = next;
        }
        const open = new Set(unanswered(log).map((message) => message.id));
        for (const { message } of log.records)
          expect(open.has(message.id) && answerTo(log, message.id) !== null).toBe(false);
        const answers = log.records.flatMap(({ message }) =>
          message.type === "RESPONSE" ? [message.correlation] : [],
        );
        expect(new Set(answers).size).toBe(answers.length);
        const sent = new Set(acts.flatMap((one) => (one.do === "request" ? [one.of] : [])));
        expect(log.records.filter(({ message }) => message.type === "REQUEST")).toHaveLength(sent.size);
      }),
    );
  });
});

describe("message id", () => {
  test("an id follows from its parts, and differs when one does", () => {
    const parts = { at: "2026-01-14T10:30:00.000Z", from: "a", to: "b", key: "k" };
    expect(messageId(parts)).toBe(messageId({ ...parts }));
    expect(messageId(parts)).toMatch(/^MSG-1768386600000-[0-9a-f]{8}$/);
    const others = [{ from: "b" }, { to: "a" }, { key: "l" }, { at: "2026-01-14T10:30:00.001Z" }];
    const ids = [parts, ...others.map((change) => ({ ...parts, ...change }))].map((one) => messageId(one));
    expect(new Set(ids).size).toBe(5);
  });
});
