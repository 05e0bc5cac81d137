// Restate, one node, with the server binary of its npm package. By default it syncs its log for each record.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join, dirname } from "node:path";
import { createServer } from "node:http2";
import * as restate from "@restatedev/restate-sdk";
import * as clients from "@restatedev/restate-sdk-clients";
import { stopAtExit } from "./guard.mjs";

export async function open(directory) {
  const [ingress, admin, fabric, service] = [18080, 19070, 15122, 19080];
  const steps = restate.service({
    name: "steps",
    handlers: {
      run: async (context, { steps: count }) => {
        for (let at = 0; at < count; at += 1) await context.run(`step-${at}`, () => at);
      },
    },
  });
  const endpoint = restate
    .endpoint()
    .setLogger(() => undefined)
    .bind(steps);
  const http = createServer(endpoint.http2Handler());
  await new Promise((resolve) => http.listen(service, "127.0.0.1", resolve));
  const binary = serverBinary();
  const server = spawn(binary, ["--base-dir", join(directory, "restate"), "--bind-address", `127.0.0.1:${fabric}`], {
    cwd: directory,
    stdio: ["ignore", "ignore", "ignore"],
    env: {
      ...process.env,
      RUST_LOG: "error",
      RESTATE_DISABLE_TELEMETRY: "true",
      DO_NOT_TRACK: "true",
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${fabric}`,
      RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE: "512 MB",
    },
  });
  const stop = stopAtExit("kill", ["-9", String(server.pid)]);
  await register(admin, `http://127.0.0.1:${service}`);
  const client = clients.connect({ url: `http://127.0.0.1:${ingress}` });
  return {
    durability: "its own replicated log on RocksDB, one node, synced",
    async run({ runs, steps: count }) {
      const caller = client.serviceClient({ name: "steps" });
      await Promise.all(Array.from({ length: runs }, () => caller.run({ steps: count })));
    },
    async close() {
      await stop();
      http.close();
    },
  };
}

/** The start script of the package does nothing but find and start this binary. */
function serverBinary() {
  const require = createRequire(import.meta.url);
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`;
  return join(dirname(require.resolve(`${name}/package.json`)), "bin", "restate-server");
}

async function register(admin, uri) {
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await fetch(`http://127.0.0.1:${admin}/deployments`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ uri, force: true }),
      });
      if (answer.ok) return;
      if (tries > 100) throw new Error(await answer.text());
    } catch (error) {
      if (tries > 100) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
