import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { createGroupCommit } from "./group-commit.ts";
import { asHoldfastError, isBusy, isCollision, losesTrust } from "./sqlite-errors.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { rejectsWith } from "@holdfast/testing/refuses";

function sqliteError(errcode: number): Error {
  return Object.assign(new Error(`result code ${errcode}`), { code: "ERR_SQLITE_ERROR", errcode });
}

function systemError(code: string): Error {
  return Object.assign(new Error(code), { code, syscall: "write", errno: -1 });
}

test("what SQLite and the system throw becomes one of our codes, with a hint", () => {
  const cases: readonly [Error, string][] = [
    [sqliteError(5), "STORE_BUSY"],
    [sqliteError(5 | (2 << 8)), "STORE_BUSY"],
    [sqliteError(8), "STORE_READ_ONLY"],
    [sqliteError(10 | (4 << 8)), "IO_FAILED"],
    [sqliteError(11), "STORE_CORRUPT"],
    [sqliteError(13), "DISK_FULL"],
    [sqliteError(14), "IO_FAILED"],
    [sqliteError(26), "STORE_CORRUPT"],
    [sqliteError(1), "INTERNAL"],
    [systemError("ENOSPC"), "DISK_FULL"],
    [systemError("EDQUOT"), "DISK_FULL"],
    [systemError("EROFS"), "STORE_READ_ONLY"],
    [systemError("EACCES"), "STORE_READ_ONLY"],
    [systemError("EIO"), "IO_FAILED"],
    [new Error("who knows"), "INTERNAL"],
  ];
  for (const [error, code] of cases) {
    const ours = asHoldfastError(error, "/somewhere");
    expect(`${error.message}: ${ours.code}`).toBe(`${error.message}: ${code}`);
    expect(ours.message).toContain("/somewhere");
    expect(ours.hint).toBeTruthy();
    expect(ours.cause).toBe(error);
  }
  const ours = new HoldfastError({ code: "CONFLICT", message: "m" });
  expect(asHoldfastError(ours, "/x")).toBe(ours);
});

test("an I/O error where there is room is the disk's, and where there is none it is a full disk", () => {
  const write = sqliteError(10 | (3 << 8));
  expect(asHoldfastError(write, tmpdir())).toMatchObject({ code: "IO_FAILED", data: { sqlite: 778 } });
  // /proc has no blocks at all.
  expect(asHoldfastError(write, "/proc")).toMatchObject({
    code: "DISK_FULL",
    hint: expect.stringContaining("open the store again"),
  });
  const sharedMemory = sqliteError(10 | (19 << 8));
  expect(asHoldfastError(sharedMemory, "/proc")).toMatchObject({
    code: "DISK_FULL",
    hint: expect.stringContaining("try again"),
  });
  expect(losesTrust(sharedMemory)).toBe(false);
});

test("only errors after which the disk's state is uncertain lose our trust", () => {
  expect([sqliteError(10), sqliteError(1034), sqliteError(11), systemError("EIO")].every(losesTrust)).toBe(true);
  expect(
    [sqliteError(5), sqliteError(8), sqliteError(13), systemError("ENOSPC"), new Error("x")].some(losesTrust),
  ).toBe(false);
  expect(isBusy(sqliteError(5)) && isBusy(sqliteError(6)) && !isBusy(sqliteError(13))).toBe(true);
  expect(isCollision(sqliteError(1555)) && !isCollision(sqliteError(19))).toBe(true);
});

test("after a failed sync nothing is written through the handle, and the sync is not tried again", async () => {
  const calls: string[] = [];
  let failWith: Error | undefined;
  const group = createGroupCommit({
    transactions: {
      begin: () => void calls.push("begin"),
      writeTrusting: (work) => work(),
      commit() {
        calls.push("commit");
        if (failWith !== undefined) throw failWith;
      },
      rollback: () => void calls.push("rollback"),
      write: (work) => work(),
      read: (work) => work(),
    },
    log: { gather: () => {}, write: () => {}, discard: () => {} },
    isDue: () => false,
    beforeCommit: () => {},
    afterCommit: () => {},
    onDistrust: () => void calls.push("distrust"),
    location: "/somewhere",
    busyMs: 1000,
  });
  const job = { plan: () => {}, apply: () => "done" };
  expect(await group.submit(job)).toBe("done");
  failWith = sqliteError(13);
  await rejectsWith("DISK_FULL", () => group.submit(job));
  failWith = undefined;
  expect(await group.submit(job)).toBe("done");
  failWith = sqliteError(1034);
  const both = await Promise.allSettled([group.submit(job), group.submit(job)]);
  expect(both.map((one) => (one.status === "rejected" ? one.reason.code : one.value))).toEqual([
    "IO_FAILED",
    "IO_FAILED",
  ]);
  failWith = undefined;
  expect(calls.filter((call) => call === "distrust")).toEqual(["distrust"]);
  const before = calls.length;
  await rejectsWith("IO_FAILED", () => group.submit(job));
  expect(calls.length).toBe(before);
});

test("one row of a saver that is alone: what it meets decides whether it is tried again", async () => {
  for (const { meets, ends, again } of [
    { meets: sqliteError(1555), ends: "done", again: true },
    { meets: new HoldfastError({ code: "LEASE_LOST", message: "", hint: "" }), ends: "done", again: true },
    { meets: sqliteError(5), ends: "done", again: true },
    { meets: sqliteError(13), ends: "DISK_FULL", again: false },
    { meets: sqliteError(1034), ends: "IO_FAILED", again: false },
  ]) {
    const seen: string[] = [];
    let looking = false;
    const group = createGroupCommit({
      transactions: {
        begin() {
          looking = true;
        },
        writeTrusting: (work) => work(),
        commit() {
          looking = false;
        },
        rollback: () => {},
        write: (work) => work(),
        read: (work) => work(),
      },
      log: { gather: () => {}, write: () => {}, discard: () => {} },
      isDue: () => false,
      beforeCommit: () => {},
      afterCommit: () => {},
      onDistrust: () => {},
      location: "/somewhere",
      busyMs: 60_000,
    });
    const busy = isBusy(meets);
    const row = {
      rowsOnly: 1,
      plan() {
        seen.push(looking ? "looking" : "trusting");
        if (meets instanceof HoldfastError && !looking) throw meets;
      },
      apply() {
        if (!looking && !(meets instanceof HoldfastError) && !(busy && seen.length > 1)) throw meets;
        return "done";
      },
    };
    // The event loop has turned just now, so what follows at once is committed within its call.
    await group.submit({ plan: () => {}, apply: () => {} });
    const answer = await group.submit(row).catch((error: HoldfastError) => error.code);
    expect(answer).toBe(ends);
    expect(seen.length > 1).toBe(again);
    // A refusal, or a position that is taken, is believed only by who has looked.
    expect(seen.includes("looking")).toBe(again && !busy);
  }
});
