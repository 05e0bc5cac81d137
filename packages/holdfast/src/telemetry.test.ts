import { metrics } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { expect, onTestFinished, test } from "vitest";
import { countsOf, observeWorker } from "./telemetry.ts";

test.each([
  ["run.ended", { outcome: "failed", reason: "secret" }, "holdfast.run.ended", { "holdfast.outcome": "failed" }],
  [
    "run.waiting",
    { for: "quota", reason: "r", until: null },
    "holdfast.run.waited",
    { "holdfast.waiting_for": "quota" },
  ],
  ["run.resumed", { counts: true }, "holdfast.run.recovered", {}],
  ["step.finished", { step: "build" }, "holdfast.step.ended", { "holdfast.outcome": "finished" }],
  ["step.lost", { step: "build" }, "holdfast.step.ended", { "holdfast.outcome": "lost" }],
] as const)("%s is counted without names or texts of the run", (kind, body, name, attributes) => {
  expect(countsOf({ kind, body })).toEqual({ name, attributes });
});

test("entries of no interest count nothing", () => {
  for (const kind of ["note", "stage.entered", "x.requested"] as const) expect(countsOf({ kind, body: {} })).toBeNull();
});

test("the load of a worker is read when metrics are collected", async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const provider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter })] });
  metrics.setGlobalMeterProvider(provider);
  onTestFinished(async () => {
    metrics.disable();
    await provider.shutdown();
  });
  const collect = async () => {
    exporter.reset();
    await provider.forceFlush();
    const found = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    return Object.fromEntries(
      found.map(({ descriptor, dataPoints }) => [
        descriptor.name,
        dataPoints.map(({ value, attributes }) => [value, ...Object.values(attributes)]),
      ]),
    );
  };
  let busy = 1;
  observeWorker(() => ({ slots: 4, busy, runs: { running: 1, crashed: 2 }, entries: { waiting: 7 } }));
  busy = 3;
  expect(await collect()).toEqual({
    "holdfast.worker.slots": [[4]],
    "holdfast.worker.busy": [[3]],
    "holdfast.runs": [
      [1, "running"],
      [2, "crashed"],
    ],
    "holdfast.queue.entries": [[7, "waiting"]],
  });
});
