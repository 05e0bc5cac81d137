import type { Protocol } from "./protocol.ts";

export const openaiError: Protocol["error"] = ({ status, message, type }) => ({
  error: { message, type: type ?? TYPES[status] ?? "server_error", code: type ?? null, param: null },
});

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "invalid_request_error",
  403: "insufficient_permissions",
  404: "invalid_request_error",
  429: "rate_limit_exceeded",
};
