"""A campaign's results as a CI shows them: JUnit XML, a Markdown summary, and what fails the job."""
