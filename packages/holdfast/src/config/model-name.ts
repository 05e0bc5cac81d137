/**
 * `provider:model`, or `provider` alone for its default. Which models there are, and who needs one, is known by the agent alone; here only the
 * form is checked.
 */
export const MODEL: RegExp = /^[a-z][a-z0-9-]*(?::[^\0\n]*\S[^\0\n]*)?$/;
