import { usageError } from "@holdfast/platform/error";
import pg from "pg";
import pgPass from "pgpass";

/* Where the database is: what a URL, the PG* variables and a password file say. No message contains a password. */

export interface Target {
  readonly client: pg.ClientConfig;
  readonly schema: string;
  /** The URL without its secrets, for messages. */
  readonly location: string;
}

const DEFAULT_SCHEMA = "holdfast";
/** As long as PostgreSQL allows, and nothing that needs to be quoted. */
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;

/** Parameters of the URL that belong to the place: a connection that is made by `location` must not be less safe. */
const KEPT = /^(?:ssl(?!password$)\w*|options|uselibpqcompat)$/;

/** `schema` is a parameter of the URL. USAGE for a URL that cannot be read. */
export function parseTarget(given: string, env: NodeJS.ProcessEnv = process.env): Target {
  // Without a host, WHATWG URLs have no user.
  const url = parseUrl(given.replace(/^(postgres(?:ql)?:\/\/[^/?#]*@)\//i, "$1localhost/"));
  const schema = url.searchParams.get("schema") ?? DEFAULT_SCHEMA;
  if (!SCHEMA.test(schema) || schema.startsWith("pg_"))
    throw usageError(
      "The name of the schema in the PostgreSQL URL is not valid",
      "Use lower-case letters, digits and underscores, such as ?schema=holdfast.",
    );
  url.searchParams.delete("schema");
  const kept = new URLSearchParams({ schema });
  for (const [key, value] of url.searchParams) if (KEPT.test(key)) kept.append(key, value);
  // The driver checks the certificate in all of these modes, and warns that it will not.
  const mode = url.searchParams.get("sslmode") ?? "";
  if (/^(?:prefer|require|verify-ca)$/.test(mode) && !url.searchParams.has("uselibpqcompat"))
    url.searchParams.set("sslmode", "verify-full");
  const { host, port, database = "", user = "", password, ssl } = probe({ connectionString: url.href });
  const client: pg.ClientConfig = {
    host,
    port,
    database,
    user,
    ssl,
    options: url.searchParams.get("options") ?? env["PGOPTIONS"] ?? "",
    password:
      password ??
      (() => new Promise((resolve) => pgPass({ host, port, database, user }, (found) => resolve(found ?? "")))),
    application_name: "holdfast",
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 10_000,
  };
  const where = host.startsWith("/") ? encodeURIComponent(host) : `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const login = user === "" ? "" : `${encodeURIComponent(user)}@`;
  return {
    client,
    schema,
    location: `postgres://${login}${where}/${encodeURIComponent(database)}?${kept}`,
  };
}

function parseUrl(given: string): URL {
  // The error of the parser contains the URL, and with it the password.
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url === null || !/^postgres(?:ql)?:$/.test(url.protocol)) throw invalid();
  // In USER:12/34@HOST/DATABASE the password is not encoded: it would be a port and the name of a database, which messages show.
  if (url.pathname.includes("@") || url.hash !== "") throw invalid();
  return url;
}

function invalid(): Error {
  return usageError(
    "The PostgreSQL URL of the store is not valid",
    "Write postgres://USER@HOST:PORT/DATABASE. Encode special characters of a password (%40 for @), or set PGPASSWORD.",
  );
}

/** What the driver makes of the URL and of the PG* variables. */
function probe(config: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(config);
  } catch (error) {
    // Of a file that the URL names: its message has the path, and nothing else of the URL.
    if (error instanceof Error && "syscall" in error)
      throw usageError(
        `A file of the PostgreSQL URL cannot be read: ${error.message}`,
        "Check sslrootcert, sslcert and sslkey.",
      );
    throw invalid();
  }
}
