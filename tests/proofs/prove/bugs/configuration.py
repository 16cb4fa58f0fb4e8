"""A bug for each claim that is proved of the caches of a deployment."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec import configuration

BUGS = (
    Bug(
        configuration.one_to_one,
        "senders_of_an_engine($deployment) == 1 and engines_of_a_sender($deployment) == 1",
        "engines_of_a_sender($deployment) == 1",
        "X-5/start",
    ),
    Bug(
        configuration.one_to_one,
        "senders_of_an_engine($deployment) == 1 and engines_of_a_sender($deployment) == 1",
        "senders_of_an_engine($deployment) == 1",
        "X-5/record/start",
    ),
    Bug(configuration.engines_of_a_sender, "$deployment.external > 0", "True", "X-5/record/start"),
    Bug(
        configuration.with_caches,
        "$private._replace(frontend=WRITER, worker=READER)",
        "$private._replace(frontend=WRITER, worker=RECEIVER)",
        "X-5/agreed/start",
    ),
    Bug(configuration.with_caches, "$deployment.enabled == 0", "False", "X-5/profile/start"),
    Bug(
        configuration.profile,
        "($deployment, DONE if $deployment.started > 0 else REFUSED)",
        "($deployment._replace(made_up=1), DONE if $deployment.started > 0 else REFUSED)",
        "X-5/profile/profile",
    ),
    Bug(configuration.engines_of_a_sender, "$deployment.external > 0", "False", "X-5/used/start"),
    Bug(configuration.with_caches, "$op.cache_type == LRU", "$op.cache_type != LRU", "X-5/type/start"),
    Bug(configuration.as_started, "min($op.multimodal, $op.gigabytes, 1)", "min($op.multimodal, 1)", "X-5/asked/start"),
    Bug(configuration.as_started, "engines=$op.engines", "engines=$op.api_processes", "X-5/asked/start"),
    Bug(configuration.profile, "$deployment.started > 0", "$deployment.enabled > 0", "X-5/asked/profile"),
    Bug(configuration.as_started, "started=1", "started=op.engines", "started/start"),
)
