"""The application: every route, header and error page, put together by ``application``.

``page_routes`` has a route for each registered page, ``static_routes`` the files that they load,
``health`` the routes without pages, ``error_pages`` what is answered instead.
"""
