import type { ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { ModelFault, ModelStep, ModelUsage } from "./model-script.ts";
import type { Protocol, Reply, StreamEvent } from "./protocol.ts";

export type AnswerEnd = "whole" | "status" | "cut" | "silent" | "hang" | "gone";

export interface AnswerNote {
  ended(end: AnswerEnd): void;
  told(usage: ModelUsage): void;
}

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

/** What happens is noted before the bytes go out, so that nobody who has read them finds an older state. */
export async function sendAnswer(answer: Answer, note: AnswerNote): Promise<void> {
  const { ended } = note;
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
  if (fault?.kind === "html") {
    ended("status");
    response.writeHead(fault.status, { "content-type": "text/html; charset=utf-8" });
    response.end(LOGIN_PAGE);
    return;
  }
  if (answer.stream) return sendStream(answer, note);
  if (fault?.kind === "silent") return ended("silent");
  if (fault?.kind === "cut") {
    ended("cut");
    response.destroy();
    return;
  }
  if (response.destroyed) return ended("gone");
  note.told(reply.usage);
  ended("whole");
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(protocol.whole(reply)));
}

const LOGIN_PAGE =
  "<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head><body><h1>Sign in</h1></body></html>\n";

async function sendStream(answer: Answer, { ended, told }: AnswerNote): Promise<void> {
  const { step, fault, response, protocol, reply } = answer;
  const events = protocol.stream(reply);
  const isWhole = fault === null || fault.kind === "refusal";
  const breaksAt = isWhole ? events.length : Math.ceil(events.length / 2);
  response.writeHead(200, { "content-type": answer.sse ? "text/event-stream" : "application/json" });
  for (const [index, event] of events.slice(0, breaksAt).entries()) {
    if (index > 0 && step.eventDelayMs !== undefined) await pause(step.eventDelayMs);
    if (response.destroyed) return ended("gone");
    if (event.told !== undefined) told(event.told);
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
