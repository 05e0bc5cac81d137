// The report of a run in the page, with a button that prints it.
import type { JSX } from "preact";
import type { Report } from "./api.ts";
import { useQuery } from "./live.ts";
import { A, Heading, Loaded, PageCommand } from "./parts.tsx";
import { ReportBody } from "./report-body.tsx";
import { type At, runRoute } from "./router.ts";
import { useProgram } from "./store.ts";

export default function ReportPageView({ here }: { readonly here: At<"report"> }): JSX.Element {
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
      {query.problem === null ? null : <Heading>{here.run}</Heading>}
      <Loaded query={query} rows={10}>
        {(report) => <ReportBody report={report} />}
      </Loaded>
      <PageCommand text={`${useProgram(here.run)} format export ${id} --to html`} />
    </>
  );
}
