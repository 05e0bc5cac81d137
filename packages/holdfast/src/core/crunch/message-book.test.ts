import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleRequest, sampleResponse } from "./crunch-sample.ts";
import {
  answerTo,
  awaitingMessages,
  deliverMessage,
  emptyMessages,
  messagesToResend,
  pendingMessages,
  sendMessage,
  withdrawMessage,
} from "./message-book.ts";
import type { MessageBook } from "./message-book.ts";
import type { Message } from "./message.ts";

const request = sampleRequest("r");
const response = sampleResponse("a", request.id);

function fold(...messages: readonly Message[]): MessageBook {
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
  const stored: MessageBook = JSON.parse(JSON.stringify(deliverMessage(fold(request), request.id)));
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
    ["an answer by another agent", sampleResponse("b", request.id, { from: "dev-go" }), /went to reviewer, not dev-go/],
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

function act(book: MessageBook, one: Act): MessageBook {
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
        // Once answered, always answered by the same.
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
      const answers = book.records.flatMap(({ message }) => (message.type === "RESPONSE" ? [message.correlation] : []));
      expect(new Set(answers).size).toBe(answers.length);
      const sent = new Set(acts.flatMap((one) => (one.do === "request" ? [one.of] : [])));
      expect(book.records.filter(({ message }) => message.type === "REQUEST")).toHaveLength(sent.size);
    }),
  );
});
