// The report of a run in the page, with a button that prints it.
import type { JSX } from "preact";
import type { Report } from "./api.ts";
import { useQuery } from "./live.ts";
import { A, PageCommand, ProblemCard, Skeleton } from "./parts.tsx";
import { ReportBody } from "./report-body.tsx";
import { type Route, runRoute } from "./router.ts";

type ReportRoute = Extract<Route, { readonly page: "report" }>;

export default function ReportPageView({ here }: { readonly here: ReportRoute }): JSX.Element {
  const { data, problem } = useQuery<Report>(`/api/runs/${here.run}/report`);
  const id = here.run.split("/")[1] ?? here.run;
  return (
    <>
      <div class="head no-print">
        <A to={runRoute(here.run)}>Back to the run</A>
        <button type="button" class="head-end" onClick={() => print()}>
          Print
        </button>
      </div>
      {problem === null ? null : (
        <>
          <h1 tabIndex={-1}>{here.run}</h1>
          <ProblemCard problem={problem} />
        </>
      )}
      {data === null ? problem === null ? <Skeleton rows={10} /> : null : <ReportBody report={data} />}
      <PageCommand text={`holdfast format export ${id} --to html`} />
    </>
  );
}
