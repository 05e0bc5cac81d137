// The report of a run in the page, with a button that prints it.
import type { JSX } from "preact";
import type { Report } from "./api.ts";
import { useQuery } from "./live.ts";
import { A, Loaded, PageCommand } from "./parts.tsx";
import { ReportBody } from "./report-body.tsx";
import { type Route, runRoute } from "./router.ts";

type ReportRoute = Extract<Route, { readonly page: "report" }>;

export default function ReportPageView({ here }: { readonly here: ReportRoute }): JSX.Element {
  const query = useQuery<Report>(`/api/runs/${here.run}/report`);
  const id = here.run.split("/")[1] ?? here.run;
  return (
    <>
      <div class="head no-print">
        <A to={runRoute(here.run)}>Back to the run</A>
        <button type="button" class="push" onClick={() => print()}>
          Print
        </button>
      </div>
      {query.problem === null ? null : <h1 tabIndex={-1}>{here.run}</h1>}
      <Loaded query={query} rows={10}>
        {(report) => <ReportBody report={report} />}
      </Loaded>
      <PageCommand text={`holdfast format export ${id} --to html`} />
    </>
  );
}
