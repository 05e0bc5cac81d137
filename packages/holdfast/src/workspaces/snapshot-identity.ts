/** Who made a snapshot commit, and when. Fixed but for the time, so that the same snapshot has the same id. */
export function snapshotIdentity(epochSeconds: number): Readonly<Record<string, string>> {
  const name = "Holdfast";
  const mail = "holdfast@localhost";
  const date = `@${epochSeconds} +0000`;
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: mail,
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: mail,
    GIT_COMMITTER_DATE: date,
  };
}
