import { asHoldfastError } from "./sqlite-errors.ts";

/** What is thrown while the items are made, or before the first of them, becomes an error of ours. */
export async function* tellErrors<T>(items: AsyncIterable<T>, location: string): AsyncGenerator<T, void, undefined> {
  try {
    yield* items;
  } catch (error) {
    throw asHoldfastError(error, location);
  }
}
