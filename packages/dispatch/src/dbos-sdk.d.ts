/** The part of DBOS that we use. It is not a dependency of Holdfast, and its own declarations need those of much else. */
declare module "@dbos-inc/dbos-sdk" {
  export interface DBOSConfig {
    readonly name: string;
    readonly systemDatabaseUrl: string;
    readonly systemDatabasePool: object;
    readonly systemDatabaseSchemaName: string;
    readonly useListenNotify: boolean;
    readonly applicationVersion: string;
    readonly executorID: string;
    readonly listenQueues: string[];
    readonly logger: Readonly<Record<"info" | "debug" | "warn" | "error", (entry: unknown) => void>>;
  }

  export const DBOS: {
    setConfig(config: DBOSConfig): void;
    launch(): Promise<void>;
    shutdown(options?: { workflowCompletionTimeoutMS?: number }): Promise<void>;
    registerWorkflow<T>(work: (given: T) => Promise<void>, options: { name: string }): (given: T) => Promise<void>;
    registerQueue(
      name: string,
      options: { minPollingIntervalMs: number; onConflict: "always_update" },
    ): Promise<{ readonly name: string }>;
    listQueues(): Promise<readonly { readonly name: string }[]>;
    deleteQueue(name: string): Promise<void>;
    startWorkflow<T>(
      workflow: (given: T) => Promise<void>,
      params: { workflowID: string; queueName: string },
    ): (given: T) => Promise<unknown>;
    listWorkflows(input: {
      limit: number;
      offset: number;
      loadInput: boolean;
      loadOutput: boolean;
    }): Promise<readonly { readonly workflowID: string }[]>;
    deleteWorkflows(ids: readonly string[]): Promise<void>;
  };
}
