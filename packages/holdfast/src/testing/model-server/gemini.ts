import { objectInput, piecesOf, type Protocol, type Reply } from "./protocol.ts";
import { asRecords, textOf } from "../../core/record.ts";

/** POST /v1beta/models/MODEL:generateContent and :streamGenerateContent */
export const gemini: Protocol = {
  name: "gemini",
  read(body, url) {
    return {
      model: /models\/([^:/]+)/.exec(url.pathname)?.[1] ?? "",
      stream: url.pathname.endsWith(":streamGenerateContent"),
      hasTools: asRecords(body["tools"]).length > 0,
      turns: asRecords(body["contents"]).map(({ role, parts }) => ({
        role: role === "model" ? "model" : "user",
        text: textOf(parts),
        toolCalls: asRecords(parts).filter((part) => part["functionCall"] !== undefined).length,
      })),
    };
  },
  whole: (reply) => answer(reply, [...textParts(reply), ...callParts(reply)], true),
  stream: (reply) => [
    ...textParts(reply).map((part) => ({ data: answer(reply, [part], false) })),
    { data: answer(reply, callParts(reply), true), told: reply.usage },
  ],
  error: ({ status, message, type }) => ({
    error: { code: status, message, status: type ?? STATUSES[status] ?? "INTERNAL" },
  }),
};

const STATUSES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

function answer(reply: Reply, parts: readonly object[], last: boolean): object {
  const content = { role: "model", parts };
  return {
    candidates: [{ content, index: 0, ...(last ? { finishReason: reply.refused ? "SAFETY" : "STOP" } : {}) }],
    ...(last ? { usageMetadata: usageOf(reply) } : {}),
    modelVersion: reply.model,
    responseId: reply.id,
  };
}

function textParts({ text }: Reply): readonly object[] {
  return piecesOf(text).map((piece) => ({ text: piece }));
}

function callParts({ id, tool }: Reply): readonly object[] {
  if (tool === null) return [];
  return [{ functionCall: { id: `call_${id}`, name: tool.name, args: objectInput(tool) } }];
}

function usageOf({ usage }: Reply): object {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    promptTokenCount: prompt,
    cachedContentTokenCount: usage.cacheRead,
    candidatesTokenCount: usage.output,
    totalTokenCount: prompt + usage.output,
  };
}
