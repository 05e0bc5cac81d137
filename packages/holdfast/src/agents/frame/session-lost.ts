/** What a dialect plans when the agent has nothing of the session that it should go on with. */
export function sessionLost(message: string) {
  return { kind: "refused", cause: "session_lost", message, hint: null, until: null } as const;
}
