import { CheckpointStore, HoldfastError } from "../../../src/context/index.ts";

/** A process of its own that saves snapshots of a context for ever, and says each that was acknowledged. */
const [directory = "", taskId = ""] = process.argv.slice(2);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

try {
  await using store = await CheckpointStore.open(taskId, { store: directory });
  const context = await store.context();
  say(`began at ${Number(context.state.get("n", 0))}`);
  for (;;) {
    const n = Number(context.state.get("n", 0)) + 1;
    context.state.set("n", n).set("text", "x".repeat((n * 997) % 5000));
    context.addTokens({ input_tokens: 10 });
    const { version } = await context.snapshot({ metadata: { n } });
    say(`saved ${version} ${n}`);
    // Nobody is hurried: other suites want the processor too.
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
} catch (error) {
  if (!(error instanceof HoldfastError)) throw error;
  say(JSON.stringify({ code: error.code, message: error.message, hint: error.hint, owner: error.data["owner"] }));
}
