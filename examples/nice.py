#!/opt/v010-adapter/bin/python3 -I
from nri import Context, Plugin, api, run


class Nice(Plugin):
    """Gives every container an environment variable, and says when one starts."""

    def create_container(self, request: api.CreateContainerRequest, context: Context) -> api.CreateContainerResponse:
        response = api.CreateContainerResponse()
        response.adjust.env.add(key="NODE_MOOD", value="nice")
        return response

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        if request.container.name == "nasty":
            raise ValueError("not on this node")  # the container does not start, the runtime logs the text
        print(f"{request.pod.name}/{request.container.name} starts; {context.remaining():.1f} s to answer")


if __name__ == "__main__":
    run(Nice(), name="nice", idx="10")
