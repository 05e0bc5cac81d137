import { CheckpointStore, HoldfastError } from "../../../src/context/index.ts";

/** A separate process that saves snapshots of a context forever, and prints each acknowledged one. */
const [directory = "", taskId = ""] = process.argv.slice(2);

function printLine(line: string): void {
  process.stdout.write(`${line}\n`);
}

try {
  await using store = await CheckpointStore.open(taskId, { store: directory });
  const context = await store.context();
  printLine(`began at ${Number(context.state.get("n", 0))}`);
  for (;;) {
    const n = Number(context.state.get("n", 0)) + 1;
    context.state.set("n", n).set("text", "x".repeat((n * 997) % 5000));
    context.addTokens({ input_tokens: 10 });
    const { version } = await context.snapshot({ metadata: { n } });
    printLine(`saved ${version} ${n}`);
    // Pauses, because other suites need the processor too.
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
} catch (error) {
  if (!(error instanceof HoldfastError)) throw error;
  printLine(JSON.stringify({ code: error.code, message: error.message, hint: error.hint, owner: error.data["owner"] }));
}
