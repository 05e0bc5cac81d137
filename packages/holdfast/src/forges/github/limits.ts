/** Of bodies of issues, comments and pull requests, in characters. */
export const LONGEST_BODY = 65_536;
