import { appendFileSync } from "node:fs";
import { SCENARIOS, FALLING } from "./scenarios.ts";
import { prepare } from "./sweep.ts";
import { clearScratch } from "../faults/harness/scratch.ts";
const [, , only = "", points = "", out = "/dev/stdout"] = process.argv;
const all = [...SCENARIOS, FALLING].filter((s) => s.name.includes(only));
const say = (text: string) => appendFileSync(out, `${text}\n`);
for (const scenario of all) {
  const began = performance.now();
  try {
    const e = await prepare(scenario);
    const calm = await e.calm();
    const kills = calm.kills.filter((k) => new RegExp(points).test(`${k.leg} ${k.point}`));
    let bad = 0;
    const queue = kills.values();
    await Promise.all([queue, queue].map(async (q) => {
      for (const kill of q) {
        const problems = await e.endure(calm, kill).catch((error) => [`threw ${error.stack}`]);
        if (problems.length > 0) { bad += 1; say(`BAD ${scenario.name} | ${kill.leg} ${kill.point}\n   ${problems.map((p) => p.slice(0, 1500)).join("\n   ")}`); }
      }
    }));
    say(`== ${scenario.name}: ${kills.length} of ${calm.kills.length} points, ${bad} bad, ${Math.round((performance.now() - began) / 1000)} s ${calm.problems}`);
    await e.remove();
  } catch (error) { say(`${scenario.name} ${error.stack}`); }
}
clearScratch();
