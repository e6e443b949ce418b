"""Which refusals of a request that fits the schema are right: schemathesis can not know that by itself."""

import schemathesis


@schemathesis.check
def refusals_say_why(ctx, response, case):
    """Every value of such a request is right by itself, so only two reasons are left; either names a field."""
    if response.status_code != 422 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    refusal = response.json()
    code = refusal["code"]
    assert code in ("inconsistent", "nothingFits"), f"the request fits the schema, and is refused as {code}"
    assert refusal["field"], "the refusal names no field"
