/** Author and committer in one, as git takes them from the environment. */
export function gitIdentity(params: {
  readonly name: string;
  readonly mail: string;
  readonly epochSeconds: number;
}): Readonly<Record<string, string>> {
  const { name, mail } = params;
  const date = `@${params.epochSeconds} +0000`;
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: mail,
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: mail,
    GIT_COMMITTER_DATE: date,
  };
}
