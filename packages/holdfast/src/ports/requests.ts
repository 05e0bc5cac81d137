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
  /** Removes what was asked of others than the holder of this epoch, and what they left when they died. */
  sweep(params: { readonly run: string; readonly epoch: number }): Promise<void>;
}
