import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { GOOD, workSuite } from "@holdfast/test-support/cli-repositories";

/* The SDK of OpenTelemetry, loaded as docs/operations.md shows, and a receiver of OTLP over HTTP. */

const suite = workSuite();

interface Point {
  readonly asInt?: number | string;
  readonly asDouble?: number;
  readonly count?: number | string;
  readonly sum?: number;
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
}
interface Metric {
  readonly name: string;
  readonly sum?: { readonly dataPoints: readonly Point[] };
  readonly histogram?: { readonly dataPoints: readonly Point[] };
  readonly gauge?: { readonly dataPoints: readonly Point[] };
}
interface Export {
  readonly resourceMetrics: readonly { readonly scopeMetrics: readonly { readonly metrics: readonly Metric[] }[] }[];
}

async function startReceiver(): Promise<{ readonly url: string; readonly received: Export[] }> {
  const received: Export[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part);
      if (request.url === "/v1/metrics") received.push(JSON.parse(Buffer.concat(parts).toString()));
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    })();
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`, received };
}

/** The documented file. Its packages are installed beside it; here they are those of this repository. */
async function documentedFile(folder: string): Promise<string> {
  const page = await readFile(join(import.meta.dirname, "../../../docs/operations.md"), "utf8");
  const [, code = ""] = /```js\n(\/\/ telemetry\.mjs\n[^]*?)```/.exec(page) ?? [];
  const installed = [
    ["@opentelemetry/api", import.meta.resolve("@opentelemetry/api")],
    ["@opentelemetry/sdk-metrics", import.meta.resolve("@opentelemetry/sdk-metrics")],
    ["@opentelemetry/exporter-metrics-otlp-http", import.meta.resolve("@opentelemetry/exporter-metrics-otlp-http")],
  ] as const;
  const path = join(folder, "telemetry.mjs");
  await writeFile(
    path,
    installed.reduce((text, [name, url]) => text.replace(`from "${name}"`, `from "${url}"`), code),
  );
  return path;
}

function lastOf(received: readonly Export[]): readonly Metric[] {
  const found = received.at(-1)?.resourceMetrics ?? [];
  return found.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
}

test("a run and a worker send their metrics to a collector, and end as well when none answers", async () => {
  const place = await suite.begin();
  const { url, received } = await startReceiver();
  const file = await documentedFile(join(place.clone, ".."));
  const agent = await place.agent([GOOD]);
  const run = (endpoint: string, ...args: readonly string[]) =>
    place.holdfast.run(args, {
      cwd: place.clone,
      env: { NODE_OPTIONS: `--import ${file}`, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint },
    });
  const done = await run(url, "run", "1", "--no-review", "--agent", agent);
  expect(done, done.stderr).toMatchObject({ status: 0 });

  let metrics = lastOf(received);
  const points = (name: string): readonly Point[] => {
    const found = metrics.find((metric) => metric.name === name);
    return found?.sum?.dataPoints ?? found?.histogram?.dataPoints ?? found?.gauge?.dataPoints ?? [];
  };
  const attribute = ({ attributes }: Point, key: string) =>
    attributes.find((one) => one.key === key)?.value.stringValue;
  const [ended] = points("holdfast.run.ended");
  expect(Number(ended?.asInt ?? ended?.asDouble)).toBe(1);
  expect(ended === undefined ? "" : attribute(ended, "holdfast.outcome")).toBe("done");
  expect(points("holdfast.step.ended").length).toBeGreaterThan(0);
  expect(Number(points("holdfast.commit.duration")[0]?.count)).toBeGreaterThan(0);
  expect(Number(points("gen_ai.client.operation.duration")[0]?.count)).toBe(1);
  const tokens = new Map(
    points("gen_ai.client.token.usage").map((one) => [attribute(one, "gen_ai.token.type"), one.sum]),
  );
  expect([...tokens]).toEqual([
    ["input", 800],
    ["output", 200],
  ]);
  expect(Number(points("holdfast.agent.cost")[0]?.asDouble)).toBe(0.005);
  // No name of a run, file or repository leaves the machine.
  expect(JSON.stringify(metrics)).not.toMatch(/issue-1|shop|answer/);

  const later = ["submit", "--task", "Later", "--at", "2100-01-01", "--no-review", "--agent", agent];
  expect(await run(url, ...later)).toMatchObject({ status: 0 });
  const looked = await run(url, "worker", "--once", "--here");
  expect(looked, looked.stderr).toMatchObject({ status: 0 });
  metrics = lastOf(received);
  expect(points("holdfast.worker.busy").map(({ asInt, asDouble }) => Number(asInt ?? asDouble))).toEqual([0]);
  const byStatus = points("holdfast.runs").map((one) => [
    attribute(one, "holdfast.status"),
    Number(one.asInt ?? one.asDouble),
  ]);
  expect(Object.fromEntries(byStatus)).toEqual({ running: 0, queued: 1, waiting: 0, paused: 0, crashed: 0, saved: 0 });

  const again = await run("http://127.0.0.1:9", "run", "--task", "Answer", "--no-review", "--agent", agent);
  expect(again, again.stderr).toMatchObject({ status: 0 });
});
