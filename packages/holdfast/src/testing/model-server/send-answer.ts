import type { ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { ModelFault, ModelStep } from "./model-script.ts";
import type { Protocol, Reply, StreamEvent } from "./protocol.ts";

export type AnswerEnd = "whole" | "status" | "cut" | "silent" | "hang" | "gone";

export interface Answer {
  readonly protocol: Protocol;
  readonly reply: Reply;
  readonly step: ModelStep;
  readonly fault: ModelFault | null;
  readonly stream: boolean;
  /** As server-sent events; else a JSON array. */
  readonly sse: boolean;
  readonly response: ServerResponse;
}

/** `ended` is told before the last bytes of a whole answer go out, so that nobody who has read them finds it still open. */
export async function sendAnswer(answer: Answer, ended: (end: AnswerEnd) => void): Promise<void> {
  const { step, fault, response, protocol, reply } = answer;
  await pause(step.delayMs ?? 0);
  if (fault?.kind === "hang") return ended("hang");
  if (fault?.kind === "status") {
    const { status, type } = fault;
    const message = fault.message ?? `scripted ${status}`;
    ended("status");
    response.writeHead(status, { "content-type": "application/json", ...fault.headers });
    response.end(JSON.stringify(fault.body ?? protocol.error({ status, message, type })));
    return;
  }
  if (answer.stream) return sendStream(answer, ended);
  if (fault?.kind === "silent") return ended("silent");
  if (fault?.kind === "cut") {
    ended("cut");
    response.destroy();
    return;
  }
  ended(response.destroyed ? "gone" : "whole");
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(protocol.whole(reply)));
}

async function sendStream(answer: Answer, ended: (end: AnswerEnd) => void): Promise<void> {
  const { step, fault, response, protocol, reply } = answer;
  const events = protocol.stream(reply);
  const breaksAt = fault === null ? events.length : Math.ceil(events.length / 2);
  response.writeHead(200, { "content-type": answer.sse ? "text/event-stream" : "application/json" });
  for (const [index, event] of events.slice(0, breaksAt).entries()) {
    if (index > 0 && step.eventDelayMs !== undefined) await pause(step.eventDelayMs);
    if (response.destroyed) return ended("gone");
    if (index === events.length - 1) ended("whole");
    await written(response, answer.sse ? sseOf(event) : `${index === 0 ? "[" : ","}${JSON.stringify(event.data)}`);
  }
  switch (fault?.kind) {
    case "cut":
      ended("cut");
      response.destroy();
      return;
    case "silent":
      return ended("silent");
    default:
      response.end(answer.sse ? "" : "]");
  }
}

/** Resolves when the kernel has it, so that what is cut off after it has come before it. */
function written(response: ServerResponse, text: string): Promise<void> {
  return new Promise((resolve) => response.write(text, () => resolve()));
}

function sseOf({ name, data }: StreamEvent): string {
  const line = `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  return name === undefined ? line : `event: ${name}\n${line}`;
}
