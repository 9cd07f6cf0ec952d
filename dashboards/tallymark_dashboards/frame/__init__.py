"""What all pages share, so that a page is one function and one template. It knows no page.

Read ``ask`` (what a page is asked), ``page`` (what it answers), ``registry`` (how it is found),
then ``rendering`` (how it becomes HTML). ``context`` is what one application has.
"""
