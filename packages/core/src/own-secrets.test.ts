import { expect, test } from "vitest";
import { maskSecrets } from "./mask.ts";

// Ratios of processor time of this process, so that the load of the machine does not matter. Tests of core share a process with others.
test("hostile text costs about as much as any other of its length", () => {
  const cost = (piece: string, length: number): number => {
    const text = piece.repeat(Math.ceil(length / piece.length));
    const runs = Array.from({ length: 3 }, () => {
      const before = process.cpuUsage();
      maskSecrets(text);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    });
    return Math.min(...runs);
  };
  const ordinary = cost("const token = process.env.TOKEN; // the key is secret\n", 1_000_000);
  for (const piece of ["sk-", "eyJa-", "token="]) {
    const [quarter, whole] = [cost(piece, 250_000), cost(piece, 1_000_000)];
    expect(whole / quarter, piece).toBeLessThan(8);
    expect(whole / ordinary, piece).toBeLessThan(8);
  }
});
