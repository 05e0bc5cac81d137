import { type ErrorCode, type ErrorParams, HoldfastError } from "@holdfast/platform/error";

/* What PostgreSQL and the connection throw, as our one kind of error. */

/** The answer to COMMIT was lost, and the database does not show whether it was made. */
export class InDoubt extends Error {
  constructor(cause?: unknown) {
    const why = cause instanceof Error && !(cause instanceof InDoubt) ? `: ${cause.message}` : "";
    super(`the connection was lost during COMMIT${why}`, { cause });
  }
}

/** What came instead of an answer to COMMIT is not from the server, and says nothing about the commit. */
export class NoAnswer extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** SQLSTATE of an error of the server. */
export function sqlState(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("E") ? code : undefined;
}

/**
 * Another transaction was in the way; the whole transaction can be repeated. Unique keys collide when two processes create one run. A division by
 * zero: `checkHead` found a run that another process has changed.
 */
export function isConflict(error: unknown): boolean {
  return ["40001", "40P01", "23505", "22012"].includes(sqlState(error) ?? "");
}

/** The connection is gone, or the server takes none at the moment. */
export function isLost(error: unknown): boolean {
  if (error instanceof NoAnswer) return true;
  const state = sqlState(error);
  if (state !== undefined) return state.startsWith("08") || LOST.has(state);
  return (
    error instanceof Error && !(error instanceof HoldfastError) && !(error instanceof InDoubt) && isOfConnection(error)
  );
}

/** Shutdowns, time limits of idle sessions, a server that starts, and too many connections. */
const LOST: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300"]);

function isOfConnection(error: Error): boolean {
  const code: unknown = "code" in error ? error.code : undefined;
  if (typeof code === "string")
    return /^(?:ECONN|EPIPE|ENOENT|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EAI_AGAIN|ENOTFOUND|EADDRNOTAVAIL)/.test(
      code,
    );
  return /terminated|timeout|not queryable|closed the connection|establishing an SSL/i.test(error.message);
}

/** The certificate of the server is refused, or the server offers no encryption. */
function isOfTls(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code: unknown = "code" in error ? error.code : undefined;
  return typeof code === "string"
    ? /CERT|SIGNATURE|^ERR_(?:TLS|SSL|OSSL)_/.test(code)
    : /does not support SSL/.test(error.message);
}

/** A page or an index of the database is damaged. */
export function losesTrust(error: unknown): boolean {
  return ["XX001", "XX002"].includes(sqlState(error) ?? "");
}

export function postgresError(error: unknown, location: string): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const advice = adviceFor(error);
  const why = error instanceof Error ? error.message : String(error);
  const state = sqlState(error);
  return new HoldfastError({
    code: advice.code,
    message: `${advice.what} in the store ${location}: ${why}`,
    hint: advice.hint,
    retry: advice.retry ?? "never",
    data: { location, ...(state === undefined ? {} : { sqlState: state }) },
    cause: error,
  });
}

interface Advice extends Pick<ErrorParams, "retry"> {
  readonly code: ErrorCode;
  readonly what: string;
  readonly hint: string;
}

function adviceFor(error: unknown): Advice {
  const state = sqlState(error);
  if (isOfTls(error)) return ADVICE.tls;
  // The driver's own words where the server asks for a password and there is none.
  if (error instanceof Error && /client password must be/.test(error.message)) return ADVICE.login;
  if (error instanceof InDoubt) return ADVICE.inDoubt;
  if (isLost(error)) return ADVICE.lost;
  if (isConflict(error) || state === "55P03" || state === "57014") return ADVICE.busy;
  switch (state) {
    case "28000":
    case "28P01":
      return ADVICE.login;
    case "3D000":
      return ADVICE.noDatabase;
    case "42501":
    case "25006":
      return ADVICE.denied;
    case "42P01":
    case "3F000":
      return ADVICE.missing;
    case "53100":
      return ADVICE.full;
    default:
      return state !== undefined && losesTrust(error) ? ADVICE.corrupt : ADVICE.unexpected;
  }
}

const ADVICE = {
  inDoubt: {
    code: "IO_FAILED",
    what: "The answer to a commit was lost",
    hint: "Whether the change was written is not known. Look at the run before you repeat the command.",
    retry: "ask",
  },
  lost: {
    code: "IO_FAILED",
    what: "The database cannot be reached",
    hint: "Nothing was written. Check that the server runs and that this machine reaches it, then try again.",
    retry: "later",
  },
  busy: {
    code: "STORE_BUSY",
    what: "Another transaction was in the way",
    hint: "Nothing was written. Try again; if it stays so, look for a stuck session in pg_stat_activity.",
    retry: "later",
  },
  login: {
    code: "IO_FAILED",
    what: "The server refuses the login",
    hint: "Set PGPASSWORD, add a line to ~/.pgpass, or check the user and pg_hba.conf.",
    retry: "ask",
  },
  tls: {
    code: "IO_FAILED",
    what: "There is no encrypted connection that can be trusted",
    hint: "Check the host name in the URL, and name your own authority with sslrootcert=FILE. Use sslmode=disable only for a server on this machine.",
    retry: "ask",
  },
  noDatabase: {
    code: "IO_FAILED",
    what: "There is no such database",
    hint: "Create it with `createdb`, or name another one in the URL.",
    retry: "ask",
  },
  denied: {
    code: "STORE_READ_ONLY",
    what: "Writing is not permitted",
    hint: "Nothing was written. Grant the role what docs/postgres.md lists, or use a role that may write.",
    retry: "ask",
  },
  missing: {
    code: "STORE_MISSING",
    what: "A table is gone",
    hint: "Restore the schema from a backup.",
    retry: "never",
  },
  full: {
    code: "DISK_FULL",
    what: "The disk of the server is full",
    hint: "Nothing was written and everything saved before is safe. Free some space on the server and try again.",
    retry: "ask",
  },
  corrupt: {
    code: "STORE_CORRUPT",
    what: "The database is damaged",
    hint: "Run `holdfast verify` to see what is still whole, or restore the database from a backup.",
    retry: "never",
  },
  unexpected: {
    code: "INTERNAL",
    what: "Unexpected failure",
    hint: "This is a defect; please report it with the message above.",
    retry: "never",
  },
} as const satisfies Record<string, Advice>;
