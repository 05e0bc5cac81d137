// Loaded before a worker that prints its events as JSON. It kills the worker, without any cleanup, after the first event of the kind DIE_AFTER.
// The runs that the worker starts load this file too, and live on.

const { stdout } = process;
const write: unknown = stdout.write;
if (typeof write !== "function") throw new TypeError("stdout cannot be written");
const isWorker = process.argv.includes("--join");
Reflect.set(stdout, "write", (...args: readonly unknown[]): unknown => {
  const written: unknown = Reflect.apply(write, stdout, args);
  if (isWorker && String(args[0]).includes(`"kind":"${process.env["DIE_AFTER"]}"`))
    process.kill(process.pid, "SIGKILL");
  return written;
});
