import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSchema, execute, GraphQLError, parse, specifiedRules, validate, type GraphQLSchema } from "graphql";
import { fieldsOf, textOf, type Handler, type Incoming, type Reply } from "../forge-server/exchange.ts";
import { graphRoot } from "./graph-root.ts";
import type { World } from "./world.ts";

/** GitHub's GraphQL, on its own schema, for what the commands of `gh` ask. Writes go through the REST routes. */
export async function answerGraph(params: {
  readonly world: World;
  readonly login: string;
  readonly incoming: Incoming;
  readonly rest: Handler;
}): Promise<Reply> {
  const fields = fieldsOf(params.incoming.body);
  const known = schema();
  const document = parse(textOf(fields["query"], ""));
  const wrong = validate(known, document, RULES);
  if (wrong.length > 0) return { status: 200, body: { errors: wrong.map(told) } };
  const result = await execute({
    schema: known,
    document,
    rootValue: graphRoot(params),
    variableValues: fieldsOf(fields["variables"]),
    operationName: textOf(fields["operationName"], "") || null,
  });
  const { data, errors } = result;
  return { status: 200, body: errors === undefined ? { data } : { data, errors: errors.map(told) } };
}

/** GitHub lets fields of one name overlap where their types differ, and `gh` counts on it. */
const RULES = specifiedRules.filter(({ name }) => name !== "OverlappingFieldsCanBeMergedRule");

let built: GraphQLSchema | undefined;

/** Takes two seconds, so once a process, and only where it is asked for. */
function schema(): GraphQLSchema {
  if (built !== undefined) return built;
  const path = fileURLToPath(new URL("schema.graphql", import.meta.resolve("@octokit/graphql-schema")));
  built = buildSchema(readFileSync(path, "utf8"), { assumeValid: true });
  return built;
}

/** What is absent has a type of its own: `gh` tells it from other errors by that. */
function told(error: GraphQLError): object {
  const type = error.extensions["type"];
  return { ...error.toJSON(), ...(typeof type === "string" ? { type } : {}) };
}
