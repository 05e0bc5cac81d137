/** A checkpoint of a run, asked for by a process that does not hold its lease. */
export interface CheckpointRequest {
  /** Random, safe in a file's name. */
  readonly id: string;
  readonly run: string;
  /** Of the lease whose holder is asked. Nobody else answers: one that outlives its lease is nobody's. */
  readonly epoch: number;
  readonly name: string | null;
}

/**
 * What shall become of a run, said by somebody who does not carry it. It is for whoever carries the run, now or next, and stands until that is
 * done or taken back.
 */
export type Order = {
  /** Random, safe in a file's name; tells it from the next one of its kind. */
  readonly id: string;
  readonly run: string;
  /** Who says so, for the journal. */
  readonly by: string;
  readonly at: string;
  readonly reason: string;
  /** Do not wait for the next safe point. */
  readonly now: boolean;
  /** "pause": stop, until somebody resumes it. "abort": end it for good. */
  readonly kind: "pause" | "abort";
};

/**
 * Notes to whoever holds a run's lease. They are wishes, not records: what was answered is told by the journal alone, so a note that is lost costs
 * a try, and one that is read twice (it is taken once) nothing. Of a withdrawal and a taking at the same moment exactly one succeeds.
 */
export interface Requests {
  /** The holder can see it, whole, when this resolves. The same id again replaces what was asked. */
  ask(request: CheckpointRequest): Promise<void>;
  /** All of a run that nobody has taken, in no order. Those that cannot be read are removed. */
  waiting(run: string): Promise<readonly CheckpointRequest[]>;
  /** The holder is at it. false: it was withdrawn, or is taken already. */
  take(request: CheckpointRequest): Promise<boolean>;
  /** Whoever asked wants it no more. false: too late, it was taken. */
  withdraw(request: CheckpointRequest): Promise<boolean>;
  /** "gone": answered, given up, withdrawn, or never asked. */
  stateOf(request: CheckpointRequest): Promise<"waiting" | "taken" | "gone">;
  /** The holder is done with it, one way or the other. A second call does nothing. */
  finish(request: CheckpointRequest): Promise<void>;
  /** Durable when it resolves. One of each kind a run: the later takes the place of the earlier. */
  order(order: Order): Promise<void>;
  /** What stands; an order to abort before one to pause. Throws where it cannot be told: nobody may take that for "nothing". */
  orderFor(run: string): Promise<Order | null>;
  /** It is done, or taken back. One that took its place meanwhile stands. */
  settle(order: Order): Promise<void>;
  /** Removes what was asked of others than the holder of this epoch, and what they left when they died. */
  sweep(params: { readonly run: string; readonly epoch: number }): Promise<void>;
}
