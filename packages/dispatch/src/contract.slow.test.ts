import { testDispatchContract } from "@holdfast/test-support/dispatch-suite";
import { TEST_DISPATCHES } from "@holdfast/test-support/test-dispatches";

testDispatchContract(TEST_DISPATCHES.filter(({ name }) => name !== "SQLite"));
