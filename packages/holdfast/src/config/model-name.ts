/** `provider:model`. Which models there are is known by the agent alone; here only the form is checked. */
export const MODEL: RegExp = /^[a-z][a-z0-9-]*:[^\0\n]*\S[^\0\n]*$/;
