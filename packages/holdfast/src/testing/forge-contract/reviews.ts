import assert from "node:assert/strict";
import { pullRequest, type ForgeCase } from "./harness.ts";
import { refuses } from "../refuses.ts";

export const reviewCases: readonly ForgeCase[] = [
  {
    name: "reviews are told oldest first, each with a name of its own, who wrote it, what it decides and what it says",
    async run({ open, push, writeReview }) {
      const forge = await open();
      const commit = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      assert.deepEqual(await forge.reviews(number), []);
      await writeReview(number, { author: "ada", state: "changes_requested", body: "Say it louder.", commit });
      const [first] = await forge.reviews(number);
      await writeReview(number, { author: "bob", state: "approved", body: "Fine.", commit });
      await writeReview(number, { author: "ada", state: "approved", body: "", commit });
      const all = await (await open()).reviews(number);
      assert.deepEqual(
        all.map(({ author, state, byPerson }) => [author, state, byPerson]),
        [
          ["ada", "changes_requested", true],
          ["bob", "approved", true],
          ["ada", "approved", true],
        ],
      );
      assert.equal(all[0]?.id, first?.id);
      assert.equal(new Set(all.map(({ id }) => id)).size, 3);
      assert.ok(all[0]?.body.includes("Say it louder."));
      for (const review of all) assert.ok(review.commit === null || review.commit === commit);
    },
  },
  {
    name: "a pull request that is not there has no reviews to tell, and that is said",
    async run({ open }) {
      await refuses("FORGE_REFUSED", async () => (await open()).reviews(1000));
    },
  },
];
